#include "guard/answers.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <set>

#include "base/key.hpp"
#include "base/text.hpp"
#include "guard/vote/votes.hpp"
#include "io/bytes.hpp"

namespace tessera {
namespace {

constexpr const char* kNone = "none";

bool alone_on_top(const std::vector<double>& p, size_t top) {
  for (size_t i = 0; i < p.size(); ++i)
    if (i != top && !(p[i] < p[top])) return false;
  return true;
}

/// The mean over noised copies. Where it prefers another class, the two change places.
Tensor mean_answers(const AggregateAnswers& guard, const Tensor& inputs, uint64_t key,
                    const AskModel& ask, const GuardedAnswers& plain) {
  const auto flat = inputs.to(at::kFloat).contiguous();
  const int64_t n = flat.size(0), size = flat.numel() / std::max<int64_t>(n, 1);
  auto sum = at::zeros_like(plain.probabilities);
  for (int64_t time = 0; time < guard.times; ++time) {
    auto noised = flat.clone();
    for (int64_t row = 0; row < n; ++row) {
      Rng rng(derive(question_key(key, flat.data_ptr<float>() + row * size, size), 1, time));
      float* values = noised.data_ptr<float>() + row * size;
      for (int64_t i = 0; i < size; ++i)
        values[i] += static_cast<float>(guard.scale * rng.normal());
    }
    sum += ask(noised);
  }
  auto out = (sum / static_cast<double>(guard.times)).contiguous();
  const int64_t classes = out.size(1);
  for (int64_t row = 0; row < n; ++row) {
    double* p = out.data_ptr<double>() + row * classes;
    const auto top = static_cast<size_t>(plain.labels.data_ptr<int64_t>()[row]);
    const auto now = top_of({p, p + classes});
    std::swap(p[now], p[top]);
  }
  return out;
}

/// Texts without quotes: on a command line the shell would take them.
std::string word_of(const BoundOption& option) {
  const auto* text = std::get_if<std::string*>(&option.target);
  return text ? **text : option_text(option);
}

std::string set_option(std::vector<BoundOption> options, const std::string& key,
                       const std::string& value) {
  for (auto& option : options) {
    if (option.spec.key != key) continue;
    if (auto* text = std::get_if<std::string*>(&option.target)) {
      **text = value;
      return option_error(option);
    }
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0') return fmt::format("{} = {} is no number", key, value);
    if (auto* whole = std::get_if<int64_t*>(&option.target)) {
      if (number != std::floor(number))
        return fmt::format("{} = {} is no whole number", key, value);
      **whole = static_cast<int64_t>(number);
    } else if (auto* real = std::get_if<double*>(&option.target)) {
      **real = number;
    }
    return option_error(option);
  }
  std::vector<std::string> known;
  for (const auto& option : options) known.push_back(option.spec.key);
  return fmt::format("unknown option '{}'{}", key, suggestion(key, known));
}

}  // namespace

Result<AnswerGuards> parse_answer_guards(const std::vector<std::string>& words, AnswerGuards usual,
                                         const std::string& place) {
  AnswerGuards out =
      std::find(words.begin(), words.end(), kNone) == words.end() ? usual : AnswerGuards();
  std::set<std::string> given;
  for (const auto& word : words) {
    if (word == kNone) continue;
    const auto colon = word.find(':');
    const auto name = word.substr(0, colon);
    std::vector<std::string> known{kNone};
    std::string trouble;
    bool found = false;
    AnswerGuards::each(out, [&](const char* one, auto& guard) {
      known.emplace_back(one);
      if (name != one) return;
      found = true;
      if (!given.insert(name).second) trouble = "is given twice";
      guard.emplace();
      for (size_t at = colon; at != std::string::npos && trouble.empty();) {
        const auto next = word.find(':', at + 1);
        const auto pair = word.substr(at + 1, next == std::string::npos ? next : next - at - 1);
        const auto equals = pair.find('=');
        trouble =
            equals == std::string::npos
                ? fmt::format("'{}' is no KEY=VALUE", pair)
                : set_option(bind_options(*guard), pair.substr(0, equals), pair.substr(equals + 1));
        at = next;
      }
    });
    if (!found)
      return fail(Error::kInvalid, "{}: unknown guard of answers '{}'{}", place, printable(name),
                  suggestion(name, known));
    if (!trouble.empty())
      return fail(Error::kInvalid, "{} {}: {}", place, printable(word), trouble);
  }
  return out;
}

std::vector<std::string> answer_words(AnswerGuards guards) {
  std::vector<std::string> out;
  AnswerGuards::each(guards, [&](const char* name, auto& guard) {
    if (!guard) return;
    out.emplace_back(name);
    for (const auto& option : bind_options(*guard))
      out.back() += fmt::format(":{}={}", option.spec.key, word_of(option));
  });
  return out;
}

uint64_t question_key(uint64_t key, const float* input, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, input + i, sizeof(bits));
    key = derive(key, bits);
  }
  return key;
}

size_t top_of(const std::vector<double>& p) {
  return static_cast<size_t>(std::max_element(p.begin(), p.end()) - p.begin());
}

std::vector<double> rounded_answer(std::vector<double> p, int64_t digits, size_t top) {
  const double unit = std::pow(10.0, -static_cast<double>(digits));
  for (double& value : p) value = std::round(value / unit) * unit;
  if (!alone_on_top(p, top)) p[top] = *std::max_element(p.begin(), p.end()) + unit;
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

std::vector<double> on_simplex(std::vector<double> p) {
  auto sorted = p;
  std::sort(sorted.rbegin(), sorted.rend());
  double sum = 0, shift = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    sum += sorted[i];
    const double candidate = (sum - 1) / static_cast<double>(i + 1);
    if (sorted[i] > candidate) shift = candidate;
  }
  for (double& value : p) value = std::max(0.0, value - shift);
  return p;
}

std::vector<double> noised_answer(const std::vector<double>& p, double scale, uint64_t key,
                                  size_t top) {
  constexpr int kTries = 1000;
  Rng rng(key);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    auto out = p;
    for (double& value : out) value += scale * rng.normal();
    out = on_simplex(std::move(out));
    if (alone_on_top(out, top)) return out;
  }
  // Between many classes that are as likely as each other: as it is.
  return p;
}

GuardedAnswers guarded_answers(const AnswerGuards& guards, const Tensor& inputs, uint64_t key,
                               const AskModel& ask, const std::vector<AskModel>& voters) {
  const auto told = [&](const Tensor& x) -> GuardedAnswers {
    if (guards.vote) return voted_answers(*guards.vote, x, key, voters);
    auto p = ask(x).to(at::kDouble).contiguous().clone();
    auto labels = p.argmax(1).contiguous();
    return {std::move(labels), std::move(p)};
  };
  auto out = told(inputs);
  if (guards.aggregate)
    out.probabilities = mean_answers(
        *guards.aggregate, inputs, key, [&](const Tensor& x) { return told(x).probabilities; },
        out);
  const auto flat = inputs.to(at::kFloat).contiguous();
  const int64_t n = out.probabilities.size(0), classes = out.probabilities.size(1),
                size = flat.numel() / std::max<int64_t>(n, 1);
  for (int64_t row = 0; row < n; ++row) {
    double* values = out.probabilities.data_ptr<double>() + row * classes;
    std::vector<double> p(values, values + classes);
    const auto top = static_cast<size_t>(out.labels.data_ptr<int64_t>()[row]);
    const auto asked = question_key(key, flat.data_ptr<float>() + row * size, size);
    if (guards.noise) p = noised_answer(p, guards.noise->scale, derive(asked, 2), top);
    if (guards.round) p = rounded_answer(std::move(p), guards.round->digits, top);
    if (p[top] < p[top_of(p)]) throw std::logic_error("a guard of answers has changed a class");
    if (guards.topk && guards.topk->k < classes) {
      auto sorted = p;
      std::sort(sorted.rbegin(), sorted.rend());
      const double least =
          guards.topk->k == 1 ? INFINITY : sorted[static_cast<size_t>(guards.topk->k - 1)];
      for (double& value : p)
        if (!(value >= least)) value = NAN;
    }
    std::copy(p.begin(), p.end(), values);
  }
  return out;
}

Tensor filled_in(const GuardedAnswers& answers) {
  auto out = answers.probabilities.clone();
  const int64_t n = out.size(0), classes = out.size(1);
  for (int64_t row = 0; row < n; ++row) {
    double* p = out.data_ptr<double>() + row * classes;
    double told = 0, hidden = 0;
    for (int64_t c = 0; c < classes; ++c) std::isnan(p[c]) ? ++hidden : told += p[c];
    if (static_cast<int64_t>(hidden) == classes) {
      for (int64_t c = 0; c < classes; ++c)
        p[c] = c == answers.labels.data_ptr<int64_t>()[row] ? 1 : 0;
      continue;
    }
    for (int64_t c = 0; c < classes; ++c)
      if (std::isnan(p[c])) p[c] = std::max(0.0, 1 - told) / hidden;
  }
  return out;
}

}  // namespace tessera

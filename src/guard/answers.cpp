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
#include "io/bytes.hpp"

namespace tessera {
namespace {

constexpr const char* kNone = "none";

size_t top_of(const std::vector<double>& p) {
  return static_cast<size_t>(std::max_element(p.begin(), p.end()) - p.begin());
}

bool alone_on_top(const std::vector<double>& p, size_t top) {
  for (size_t i = 0; i < p.size(); ++i)
    if (i != top && !(p[i] < p[top])) return false;
  return true;
}

uint64_t key_of(uint64_t key, const float* input, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, input + i, sizeof(bits));
    key = derive(key, bits);
  }
  return key;
}

/// The mean over noised copies. Where it prefers another class, the two change places.
Tensor mean_answers(const AggregateAnswers& guard, const Tensor& inputs, uint64_t key,
                    const std::function<Tensor(const Tensor&)>& ask, const Tensor& plain) {
  const auto flat = inputs.to(at::kFloat).contiguous();
  const int64_t n = flat.size(0), size = flat.numel() / std::max<int64_t>(n, 1);
  auto sum = at::zeros_like(plain);
  for (int64_t time = 0; time < guard.times; ++time) {
    auto noised = flat.clone();
    for (int64_t row = 0; row < n; ++row) {
      Rng rng(derive(key_of(key, flat.data_ptr<float>() + row * size, size), 1, time));
      float* values = noised.data_ptr<float>() + row * size;
      for (int64_t i = 0; i < size; ++i)
        values[i] += static_cast<float>(guard.scale * rng.normal());
    }
    sum += ask(noised);
  }
  auto out = (sum / static_cast<double>(guard.times)).contiguous();
  const auto before = plain.argmax(1).contiguous();
  const int64_t classes = out.size(1);
  for (int64_t row = 0; row < n; ++row) {
    double* p = out.data_ptr<double>() + row * classes;
    const auto top = static_cast<size_t>(before.data_ptr<int64_t>()[row]);
    const auto now = top_of({p, p + classes});
    std::swap(p[now], p[top]);
  }
  return out;
}

std::string set_option(std::vector<BoundOption> options, const std::string& key,
                       const std::string& value) {
  for (auto& option : options) {
    if (option.spec.key != key) continue;
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
      out.back() += fmt::format(":{}={}", option.spec.key, option_text(option));
  });
  return out;
}

std::vector<double> rounded_answer(std::vector<double> p, int64_t digits) {
  const double unit = std::pow(10.0, -static_cast<double>(digits));
  const size_t top = top_of(p);
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

std::vector<double> noised_answer(const std::vector<double>& p, double scale, uint64_t key) {
  constexpr int kTries = 1000;
  const size_t top = top_of(p);
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
                               const std::function<Tensor(const Tensor&)>& ask) {
  const auto plain = ask(inputs).to(at::kDouble).contiguous();
  GuardedAnswers out{plain.argmax(1).contiguous(), plain.clone()};
  if (guards.aggregate)
    out.probabilities = mean_answers(*guards.aggregate, inputs, key, ask, plain);
  const auto flat = inputs.to(at::kFloat).contiguous();
  const int64_t n = plain.size(0), classes = plain.size(1),
                size = flat.numel() / std::max<int64_t>(n, 1);
  for (int64_t row = 0; row < n; ++row) {
    double* values = out.probabilities.data_ptr<double>() + row * classes;
    std::vector<double> p(values, values + classes);
    const auto asked = key_of(key, flat.data_ptr<float>() + row * size, size);
    if (guards.noise) p = noised_answer(p, guards.noise->scale, derive(asked, 2));
    if (guards.round) p = rounded_answer(std::move(p), guards.round->digits);
    if (static_cast<int64_t>(top_of(p)) != out.labels.data_ptr<int64_t>()[row] &&
        p[static_cast<size_t>(out.labels.data_ptr<int64_t>()[row])] < p[top_of(p)])
      throw std::logic_error("a guard of answers has changed a class");
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

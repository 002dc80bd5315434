#include "guard/vote/votes.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <stdexcept>

#include "base/key.hpp"
#include "base/text.hpp"
#include "privacy/accountant.hpp"

namespace tessera {
namespace {

/// The difference of two exponentials: no draw is infinite.
double laplace_draw(Rng& rng) { return std::log1p(-rng.uniform()) - std::log1p(-rng.uniform()); }

void add_noise(const VoteAnswers& guard, uint64_t key, std::vector<double>& counts) {
  Rng rng(key);
  for (double& count : counts)
    count +=
        guard.noise == "laplace" ? laplace_draw(rng) / guard.gamma : guard.sigma * rng.normal();
}

}  // namespace

Vote vote_on(const VoteAnswers& guard, const std::vector<std::vector<double>>& said, uint64_t key) {
  std::vector<double> counts(said.front().size()), sums(counts.size());
  for (const auto& p : said) {
    ++counts[top_of(p)];
    for (size_t c = 0; c < p.size(); ++c) sums[c] += p[c];
  }
  const bool noisy = guard.noise != "none";
  if (noisy) add_noise(guard, key, counts);
  size_t best = 0;
  for (size_t c = 1; c < counts.size(); ++c)
    if (counts[c] > counts[best] || (!noisy && counts[c] == counts[best] && sums[c] > sums[best]))
      best = c;
  for (double& count : counts) count /= static_cast<double>(said.size());
  return {best, noisy ? on_simplex(std::move(counts)) : std::move(counts)};
}

GuardedAnswers voted_answers(const VoteAnswers& guard, const Tensor& inputs, uint64_t key,
                             const std::vector<AskModel>& voters) {
  if (std::ssize(voters) != guard.parts)
    throw std::logic_error(
        fmt::format("{} models are to vote, and there are {}", guard.parts, voters.size()));
  std::vector<Tensor> said;
  for (const auto& ask : voters) said.push_back(ask(inputs).to(at::kDouble).contiguous());
  const auto flat = inputs.to(at::kFloat).contiguous();
  const int64_t n = flat.size(0), classes = said.front().size(1),
                size = flat.numel() / std::max<int64_t>(n, 1);
  GuardedAnswers out{at::empty({n}, at::kLong), at::empty({n, classes}, at::kDouble)};
  for (int64_t row = 0; row < n; ++row) {
    std::vector<std::vector<double>> here;
    for (const auto& one : said) {
      const double* p = one.data_ptr<double>() + row * classes;
      here.emplace_back(p, p + classes);
    }
    const auto asked = question_key(key, flat.data_ptr<float>() + row * size, size);
    const auto vote = vote_on(guard, here, derive(asked, 3));
    out.labels.data_ptr<int64_t>()[row] = static_cast<int64_t>(vote.label);
    std::copy(vote.shares.begin(), vote.shares.end(),
              out.probabilities.data_ptr<double>() + row * classes);
  }
  return out;
}

std::optional<VoteCost> vote_cost(const AnswerGuards& guards, int64_t answers) {
  if (!guards.vote || guards.vote->noise == "none") return std::nullopt;
  const int64_t votes = answers * (1 + (guards.aggregate ? guards.aggregate->times : 0));
  if (guards.vote->noise == "laplace")
    return VoteCost{2 * guards.vote->gamma * static_cast<double>(votes), 0};
  // a/sigma² is that of a sum which a sample changes by the square root of 2.
  const auto epsilon =
      epsilon_of({.sigma = guards.vote->sigma / std::sqrt(2.0), .steps = votes}, kVoteDelta);
  if (!epsilon.ok()) throw std::logic_error(message(epsilon.status()));
  return VoteCost{*epsilon, kVoteDelta};
}

std::string vote_cost_text(const AnswerGuards& guards, int64_t answers) {
  if (!guards.vote) return "";
  const auto cost = vote_cost(guards, answers);
  if (!cost)
    return "votes without noise promise nothing; guard.vote.noise = \"laplace\" or \"gaussian\" "
           "has a price for every answer";
  const auto bound = cost->delta > 0
                         ? fmt::format("{:.4g} at delta {:.0e}", cost->epsilon, cost->delta)
                         : fmt::format("{:.4g}", cost->epsilon);
  return fmt::format(
      "{} by vote cost{} epsilon {} for what the last personalization learned from one sample; "
      "further questions add to it",
      answers == 1 ? "an answer" : fmt::format("{} answers", answers), answers == 1 ? "s" : "",
      bound);
}

}  // namespace tessera

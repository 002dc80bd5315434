#include "run/privacy_spent.hpp"

#include <cmath>
#include <set>

#include "base/text.hpp"
#include "privacy/accountant.hpp"
#include "run/driver.hpp"

namespace tessera {

std::string PrivacySpent::text(int64_t rounds) const {
  return fmt::format("epsilon {:.3g} at delta {:.1e} for a whole client, after {} round{}", epsilon,
                     delta, rounds, rounds == 1 ? "" : "s");
}

namespace {

constexpr double kWeak = 10;

/// How many of the rounds ask each client.
std::vector<int64_t> times_asked(const Experiment& experiment, int64_t clients, int64_t rounds) {
  const auto seed = static_cast<uint64_t>(experiment.run.seed);
  const double share = experiment.federation.participation;
  const auto& dp = experiment.guard.dp;
  const bool one_by_one = dp && dp->sigma > 0 && share < 1;
  if (share >= 1) return std::vector<int64_t>(static_cast<size_t>(clients), rounds);
  std::vector<int64_t> out(static_cast<size_t>(clients), 0);
  for (int64_t round = 1; round <= rounds; ++round)
    for (const auto id : one_by_one ? cohort_one_by_one(seed, round, clients, share)
                                    : cohort_of(seed, round, clients, share))
      ++out[static_cast<size_t>(id)];
  return out;
}

}  // namespace

std::string SamplesSpent::text() const {
  return fmt::format(
      "epsilon {:.3g} at delta {:.1e} for a single sample of the client with the weakest promise "
      "({} samples, {} steps)",
      epsilon, delta, samples, steps);
}

std::string SamplesSpent::warning() const {
  if (epsilon <= kWeak) return "";
  return fmt::format(
      "epsilon {:.3g} promises next to nothing (below 1 is strong, above {:.0f} is none): take "
      "more noise, smaller batches, or fewer rounds and epochs",
      epsilon, kWeak);
}

std::optional<SamplesSpent> samples_spent(const Experiment& experiment,
                                          const std::vector<int64_t>& samples, int64_t rounds) {
  const auto& dp = experiment.guard.dp_sgd;
  if (!dp || dp->sigma == 0 || experiment.method.pooled) return std::nullopt;
  const auto method = experiment.draft->build(experiment.train);
  const auto asked = times_asked(experiment, std::ssize(samples), rounds);
  std::set<std::pair<int64_t, int64_t>> seen;  // clients of a size and so many rounds are alike
  std::optional<SamplesSpent> worst;
  for (size_t i = 0; i < samples.size(); ++i) {
    const int64_t n = samples[i];
    if (n < 1 || !seen.emplace(n, asked[i]).second) continue;
    SamplesSpent here;
    here.client = static_cast<int64_t>(i), here.samples = n;
    here.steps = asked[i] * method->local_steps(n);
    const auto size = static_cast<double>(n), batch = static_cast<double>(experiment.train.batch);
    here.rate = std::min(1.0, batch / size);
    here.delta = dp->delta > 0 ? dp->delta : std::min(1e-5, 1 / (10 * size));
    here.epsilon = epsilon_of({.q = here.rate, .sigma = dp->sigma, .steps = here.steps}, here.delta)
                       .value_or(INFINITY);
    if (!worst || here.epsilon > worst->epsilon) worst = here;
  }
  return worst;
}

std::string PrivacySpent::warning(int64_t clients) const {
  if (epsilon <= kWeak) return "";
  return fmt::format(
      "epsilon {:.3g} promises next to nothing (below 1 is strong, above {:.0f} is none): with {} "
      "clients take more noise, fewer rounds or more clients",
      epsilon, kWeak, clients);
}

std::optional<PrivacySpent> privacy_spent(const Experiment& experiment, int64_t clients,
                                          int64_t rounds) {
  const auto& dp = experiment.guard.dp;
  if (!dp || dp->sigma == 0 || experiment.method.pooled) return std::nullopt;
  PrivacySpent out;
  const auto method = experiment.draft->build(experiment.train);
  out.of_uploads = !sum_will_do(experiment.method, *method);
  // Who sees single uploads sees who was drawn.
  out.rate = out.of_uploads ? 1 : experiment.federation.participation;
  out.delta = dp->delta > 0 ? dp->delta : std::pow(static_cast<double>(clients), -1.1);
  // delta = 1 for a single client: there is nobody to hide among.
  out.delta = std::min(out.delta, 0.5);
  out.epsilon = epsilon_of({.q = out.rate, .sigma = dp->sigma, .steps = rounds}, out.delta)
                    .value_or(INFINITY);
  return out;
}

}  // namespace tessera

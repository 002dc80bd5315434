#include "run/privacy_spent.hpp"

#include <cmath>

#include "base/text.hpp"
#include "privacy/accountant.hpp"

namespace tessera {

std::string PrivacySpent::text(int64_t rounds) const {
  return fmt::format("epsilon {:.3g} at delta {:.1e} for a whole client, after {} round{}", epsilon,
                     delta, rounds, rounds == 1 ? "" : "s");
}

std::string PrivacySpent::warning(int64_t clients) const {
  constexpr double kWeak = 10;
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
  out.of_uploads = !experiment.method.sums && !method->additive();
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

#include "privacy/accountant.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr auto kRenyiOrders = [] {
  std::array<int, 68> orders{};
  for (int i = 0; i < 63; ++i) orders[static_cast<size_t>(i)] = i + 2;
  constexpr std::array kRest = {80, 96, 128, 256, 512};
  for (size_t i = 0; i < kRest.size(); ++i) orders[63 + i] = kRest[i];
  return orders;
}();

double log_binomial(int n, int k) {
  return std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0);
}

// log(exp(x) - 1) for x > 0, where exp(x) may be too large or too close to 1.
double log_expm1(double x) {
  return x > 1.0 ? x + std::log1p(-std::exp(-x)) : std::log(std::expm1(x));
}

double log_sum_exp(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  return high == low ? high + std::log(2.0) : high + std::log1p(std::exp(low - high));
}

Status check_delta(double delta) {
  if (delta > 0.0 && delta < 1.0) return ok();
  return fail(Error::kInvalid, "delta = {} must be above 0 and below 1", delta);
}

Status check_steps(const GaussianSteps& steps) {
  if (!(steps.q >= 0.0 && steps.q <= 1.0))
    return fail(Error::kInvalid, "a sampling rate of {} must be from 0 to 1", steps.q);
  if (!(steps.sigma >= 0.0))
    return fail(Error::kInvalid, "a noise multiplier of {} must be at least 0", steps.sigma);
  if (steps.steps < 0)
    return fail(Error::kInvalid, "{} steps were to be counted; at least 0 are possible",
                steps.steps);
  return ok();
}

// What the change from Rényi to (epsilon, delta) costs at order a, besides the divergence itself.
double conversion_cost(double a, double delta, Conversion conversion) {
  if (conversion == Conversion::kClassic) return -std::log(delta) / (a - 1.0);
  return std::log1p(-1.0 / a) - (std::log(delta) + std::log(a)) / (a - 1.0);
}

}  // namespace

std::span<const int> renyi_orders() { return kRenyiOrders; }

double renyi_divergence(int order, double q, double sigma) {
  if (q == 0.0) return 0.0;
  const double scale = 2.0 * sigma * sigma;
  if (scale == 0.0) return kInfinity;
  if (q == 1.0) return order / scale;
  // The binomial weights sum to 1, so the sum of the definition is 1 + sum of weight_k (e^x_k - 1)
  // with x_0 = x_1 = 0. Written like this a small q does not vanish beside the 1.
  double log_excess = -kInfinity;
  for (int k = 2; k <= order; ++k) {
    const double x = static_cast<double>(k) * (k - 1) / scale;
    if (x == 0.0) continue;  // sigma is beyond all measure
    log_excess = log_sum_exp(log_excess, log_binomial(order, k) + (order - k) * std::log1p(-q) +
                                             k * std::log(q) + log_expm1(x));
  }
  return log_sum_exp(0.0, log_excess) / (order - 1.0);
}

Status Accountant::add(const GaussianSteps& steps) {
  TESSERA_RETURN_IF_ERROR(check_steps(steps));
  if (steps.steps == 0) return ok();
  auto& kind = kinds_[{steps.q, steps.sigma}];
  if (kind.steps > std::numeric_limits<int64_t>::max() - steps.steps)
    return fail(Error::kInvalid, "{} more steps are too many to count", steps.steps);
  kind.steps += steps.steps;
  if (kind.divergence.empty())
    for (const int order : kRenyiOrders)
      kind.divergence.push_back(renyi_divergence(order, steps.q, steps.sigma));
  return ok();
}

Result<double> Accountant::epsilon(double delta, Conversion conversion) const {
  TESSERA_RETURN_IF_ERROR(check_delta(delta));
  double best = kInfinity;
  for (size_t i = 0; i < kRenyiOrders.size(); ++i) {
    double total = 0.0;
    for (const auto& [parameters, kind] : kinds_)
      total += static_cast<double>(kind.steps) * kind.divergence[i];
    if (total == 0.0) return 0.0;  // nothing was released: no conversion is needed
    best = std::min(best, total + conversion_cost(kRenyiOrders[i], delta, conversion));
  }
  return std::max(best, 0.0);
}

std::vector<GaussianSteps> Accountant::steps() const {
  std::vector<GaussianSteps> out;
  for (const auto& [parameters, kind] : kinds_)
    out.push_back({parameters.first, parameters.second, kind.steps});
  return out;
}

Result<double> epsilon_of(const GaussianSteps& steps, double delta, Conversion conversion) {
  Accountant accountant;
  TESSERA_RETURN_IF_ERROR(accountant.add(steps));
  return accountant.epsilon(delta, conversion);
}

Result<double> sigma_for(double epsilon, double delta, double q, int64_t steps) {
  if (!(epsilon > 0.0)) return fail(Error::kInvalid, "epsilon = {} must be above 0", epsilon);
  TESSERA_RETURN_IF_ERROR(check_delta(delta));
  TESSERA_RETURN_IF_ERROR(check_steps({q, 1.0, steps}));
  if (q == 0.0 || steps == 0) return 0.0;
  const auto cost = [&](double sigma) { return *epsilon_of({q, sigma, steps}, delta); };
  constexpr double kMost = 1e9;
  double low = 0.0, high = 1e-3;
  for (; cost(high) > epsilon; high *= 2.0) {
    if (high > kMost)
      return fail(Error::kInvalid,
                  "no noise gives epsilon = {} at delta = {} (the bound ends at {:.3g}); ask for a "
                  "larger epsilon or delta",
                  epsilon, delta, cost(high));
    low = high;
  }
  while (high - low > 1e-6 * high) {
    const double middle = 0.5 * (low + high);
    (cost(middle) > epsilon ? low : high) = middle;
  }
  return high;
}

}  // namespace tessera

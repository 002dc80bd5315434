// What noise buys: epsilon and delta of many Gaussian releases, by Rényi differential privacy
// (Mironov 2017; sampled Gaussian: Mironov, Talwar and Zhang 2019; conversion: Canonne, Kamath and
// Steinke 2020, Proposition 12).
//
// The noise multiplier sigma is the noise's standard deviation divided by the largest change that
// one sample (DP-SGD) or one client (DP-FedAvg) can make. The rate q is the chance to be drawn in a
// step, each independently (Poisson). Batches of a fixed size that were shuffled are not drawn like
// that: an epsilon for them is approximate, and callers have to say so.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/status.hpp"

namespace tessera {

/// `steps` releases of a sum with noise, of samples drawn at rate q. Without sampling q = 1. A vote
/// with Gaussian noise (GNMax, whose cost is a/sigma² at order a) is q = 1 with sigma/sqrt(2).
struct GaussianSteps {
  double q = 1.0;      // 0 to 1; 0 releases nothing
  double sigma = 1.0;  // at least 0; 0 is no noise, hence an infinite epsilon
  int64_t steps = 1;   // at least 0
};

/// From Rényi to (epsilon, delta). kImproved is never larger; kClassic is what older papers state.
enum class Conversion { kImproved, kClassic };

/// The orders that a bound is searched over: 2 to 64, 80, 96, 128, 256, 512.
std::span<const int> renyi_orders();

/// R(a) of one step at an order a >= 2. Infinite without noise, 0 if nothing is drawn. Arguments
/// as GaussianSteps demands: not checked here.
double renyi_divergence(int order, double q, double sigma);

/// Adds up releases of any kinds. Neither the order of adding nor how steps are cut into calls
/// changes a bit of the answer, so a run that was resumed states the same epsilon.
class Accountant {
 public:
  /// kInvalid: a rate outside [0, 1], a sigma or number of steps below 0, or no number.
  Status add(const GaussianSteps& steps);

  /// The smallest epsilon over all orders; 0 if nothing was released, infinite if something was
  /// without noise. kInvalid: delta outside (0, 1).
  Result<double> epsilon(double delta, Conversion conversion = Conversion::kImproved) const;

  /// All that was added, equal ones together, sorted: what a checkpoint keeps.
  std::vector<GaussianSteps> steps() const;

 private:
  struct Kind {
    int64_t steps = 0;
    std::vector<double> divergence;  // of one step, by order
  };
  std::map<std::pair<double, double>, Kind> kinds_;  // by q and sigma
};

/// The epsilon of these steps alone. Errors of Accountant.
Result<double> epsilon_of(const GaussianSteps& steps, double delta,
                          Conversion conversion = Conversion::kImproved);

/// The smallest noise multiplier (to 1e-6 of itself) with which T = `steps` steps at rate q cost at
/// most epsilon by the improved conversion; what it returns keeps the promise, rounding included.
/// 0 if nothing is released. kInvalid: an epsilon of 0 or less, or one so small that no noise
/// reaches it with these orders; and as above.
Result<double> sigma_for(double epsilon, double delta, double q, int64_t steps);

}  // namespace tessera

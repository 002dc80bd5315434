// The gradient of strength/2 |w − centre|²: what proximal methods add to that of the loss.
#pragma once

#include <string>

#include "base/status.hpp"
#include "train/local_sgd.hpp"

namespace tessera {

/// Adds strength · (w − centre) to the gradient; none for strength 0. The centre [d] is held, not
/// copied.
GradientHook pull_to(Tensor centre, double strength);

/// A step of `rate` on a pull: each goes 1 − rate · strength of the way that is left.
struct PullCheck {
  std::string method, rate_key, pull_key;  // "pfedme", "method.eta_p", "method.lambda"
  double rate = 0, strength = 0;
  double limit = 2;  // rate · strength must be below; at 2 the steps swing ever further
};
/// One sentence if steps of plain sgd would not come to rest.
Status check_pull(const PullCheck& pull);

}  // namespace tessera

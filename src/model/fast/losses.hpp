// Loss and its gradient on logits, for the hand-written networks.
#pragma once

#include <cstdint>

#include "model/model.hpp"

namespace tessera::fast {

/// Mean loss of logits [n, classes] under labels y [n]; the logits are replaced by the gradient.
/// Throws std::out_of_range on a label outside 0 … classes−1, before anything is changed.
double loss_and_grad(const Loss& loss, int64_t n, int64_t classes, const int64_t* y, float* logits);

/// The derivative of that gradient along a change of the logits, which it replaces. Throws as
/// above.
void loss_grad_along(const Loss& loss, int64_t n, int64_t classes, const int64_t* y,
                     const float* logits, float* change);

}  // namespace tessera::fast

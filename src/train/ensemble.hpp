// Several models that answer as one.
#pragma once

#include <span>

#include "model/model.hpp"

namespace tessera {

/// Logarithm of the mean of the members' softmax outputs [n, classes], since predictions are
/// logits. Finite as long as the members' logits are. At least one member.
Tensor ensemble_logits(const Model& model, std::span<const Weights> members, const Tensor& x);

}  // namespace tessera

// Norms of the gradients of single samples of a stack of GRU layers.
#pragma once

#include <span>
#include <vector>

#include "model/gru_gradient.hpp"

namespace tessera {

/// One for each of n samples, of all parameters. `inputs` and `traces` are those of a forward pass
/// over `layers`; `scores` [n, classes] is the gradient of the mean loss over the samples at the
/// logits, `head` [classes, units] the last layer's weight.
std::vector<double> sample_norms(std::span<const GruLayer> layers, std::span<const Tensor> inputs,
                                 std::span<const GruTrace> traces, const Tensor& scores,
                                 const Tensor& head);

}  // namespace tessera

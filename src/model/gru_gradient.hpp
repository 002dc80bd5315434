// One GRU layer and its backward pass by hand, without a graph.
#pragma once

#include <span>

#include "tensor/layout.hpp"

namespace tessera {

/// What a forward pass leaves for the backward one; n samples, h units, all float32.
struct GruTrace {
  Tensor states;     // [steps + 1, n, h]; the first is 0
  Tensor gates;      // [steps, n, 2h]: reset, update
  Tensor proposals;  // [steps, n, h]
  Tensor recurrent;  // [steps, n, h]: what the reset gate scales
};

/// `layer` is weight_ih, weight_hh, bias_ih, bias_hh; x [steps, n, inputs] contiguous.
GruTrace gru_forward(std::span<const Tensor> layer, const Tensor& x);

/// Writes the gradients of the four into `grads` and returns that of x, or an undefined tensor when
/// it is not asked for. `above` is the gradient of the states: [steps, n, h], or [1, n, h] of the
/// last one alone.
Tensor gru_backward(std::span<const Tensor> layer, const Tensor& x, const GruTrace& trace,
                    const Tensor& above, std::span<Tensor> grads, bool want_x);

}  // namespace tessera

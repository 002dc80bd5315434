// One GRU layer and its backward pass by hand, without a graph.
#pragma once

#include <span>

#include "model/fast/kernels.hpp"
#include "tensor/layout.hpp"

namespace tessera {

/// One layer's weight_ih, weight_hh, bias_ih, bias_hh as the kernels want them: gates of whole
/// vectors, h units, of which the added ones stay 0.
struct GruLayer {
  GruLayer(std::span<const Tensor> layer, const fast::Kernels& kernels);

  const fast::Kernels& kernels;
  int64_t units, h;
  Tensor input, state;  // [3h, inputs], [3h, h]
  Tensor transposed;    // of `state`: [h, 3h]
  Tensor bias;          // [3h]: of the inputs, with the states' for the gates reset and update
  Tensor new_bias;      // [h]: the states' for the new one
};

/// What a forward pass leaves for the backward one; n samples, all float32.
struct GruTrace {
  Tensor states;     // [steps + 1, n, h]; the first is 0
  Tensor gates;      // [steps, n, 3h]: reset, update, new
  Tensor recurrent;  // [steps, n, h]: what the reset gate scales

  /// After every step, or after the last one: [steps, n, units], [n, units].
  Tensor outputs(const GruLayer& layer) const;
  Tensor last(const GruLayer& layer) const;
};

/// x [steps, n, inputs] contiguous.
GruTrace gru_forward(const GruLayer& layer, const Tensor& x);

/// Writes the gradients of the four into `grads` and returns that of x, or an undefined tensor when
/// it is not asked for. `above` is the gradient of the states: [steps, n, units], or [1, n, units]
/// of the last one alone.
Tensor gru_backward(const GruLayer& layer, const Tensor& x, const GruTrace& trace,
                    const Tensor& above, std::span<Tensor> grads, bool want_x);

}  // namespace tessera

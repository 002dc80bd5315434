#include "model/gru_per_sample.hpp"

#include <ATen/ATen.h>

#include "model/fast/per_sample.hpp"

namespace tessera {
namespace {

float* floats_at(const Tensor& tensor, int64_t t) {
  return tensor.data_ptr<float>() + t * tensor.stride(0);
}

/// Gradients of the two projections: [steps, n, 3h] each.
struct Projections {
  Tensor input, state;
};

/// `above` [steps, n, h] is the gradient of the states, or [1, n, h] of the last one.
Projections projections(const GruLayer& layer, const GruTrace& trace, const Tensor& above) {
  const int64_t steps = trace.gates.size(0), n = trace.gates.size(1), h = layer.h;
  Projections out{at::empty({steps, n, 3 * h}), at::empty({steps, n, 3 * h})};
  const bool every = above.size(0) == steps;
  Tensor state = above[above.size(0) - 1].clone();
  for (int64_t t = steps - 1; t >= 0; --t) {
    layer.kernels.gru_backward_step(n, h, t > 0 ? layer.state.data_ptr<float>() : nullptr,
                                    floats_at(trace.gates, t), floats_at(trace.recurrent, t),
                                    floats_at(trace.states, t), state.data_ptr<float>(),
                                    floats_at(out.input, t), floats_at(out.state, t));
    if (t > 0 && every) state.add_(above[t - 1]);
  }
  return out;
}

/// [n]: of Σ_t grad_t from_tᵀ and Σ_t grad_t, both [steps, n, …]. One product for all samples.
Tensor squares_of(const Tensor& grad, const Tensor& from) {
  return grad.permute({1, 2, 0}).bmm(from.transpose(0, 1)).square().sum({1, 2}) +
         grad.sum(0).square().sum(1);
}

}  // namespace

std::vector<double> sample_norms(std::span<const GruLayer> layers, std::span<const Tensor> inputs,
                                 std::span<const GruTrace> traces, const Tensor& scores,
                                 const Tensor& head) {
  const auto whole = [](const Tensor& grad, const GruLayer& layer) {
    return at::constant_pad_nd(grad, {0, layer.h - grad.size(-1)}).contiguous();
  };
  const auto last = traces.back().last(layers.back());
  auto squares = ((last.square().sum(1) + 1) * scores.square().sum(1)).to(at::kDouble);
  Tensor above = scores.mm(head).unsqueeze(0);
  for (size_t i = layers.size(); i-- > 0;) {
    const auto grads = projections(layers[i], traces[i], whole(above, layers[i]));
    const auto before = traces[i].states.narrow(0, 0, grads.state.size(0));
    squares += squares_of(grads.input, inputs[i]) + squares_of(grads.state, before);
    if (i > 0) above = grads.input.flatten(0, 1).mm(layers[i].input).view_as(inputs[i]);
  }
  return fast::norms_of({squares.data_ptr<double>(), squares.data_ptr<double>() + scores.size(0)});
}

}  // namespace tessera

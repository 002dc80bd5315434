#include "model/gru_gradient.hpp"

#include <ATen/ATen.h>

namespace tessera {
namespace {

float* at_step(const Tensor& tensor, int64_t t) {
  return tensor.data_ptr<float>() + t * tensor.stride(0);
}

/// [3·units, …] with h rows for each gate, those added being 0.
Tensor whole_gates(const Tensor& tensor, int64_t units, int64_t h) {
  if (units == h) return tensor.contiguous();
  const auto width = tensor.numel() / (3 * units);
  auto out = at::zeros({3, h, width}, tensor.options());
  out.narrow(1, 0, units).copy_(tensor.reshape({3, units, width}));
  return tensor.dim() == 1 ? out.view({3 * h}) : out.view({3 * h, width});
}
/// The last dimension from `units` to h, filled up with 0.
Tensor whole_units(const Tensor& tensor, int64_t units, int64_t h) {
  return units == h ? tensor.contiguous() : at::constant_pad_nd(tensor, {0, h - units});
}
/// Back from [3h, …] to [3·units, columns].
void keep_gates(const Tensor& whole, int64_t units, int64_t h, Tensor& out) {
  const auto width = out.numel() / (3 * units);
  out.view({3, units, width})
      .copy_(whole.reshape({3, h, -1}).narrow(1, 0, units).narrow(2, 0, width));
}

}  // namespace

GruLayer::GruLayer(std::span<const Tensor> layer, const fast::Kernels& set)
    : kernels(set), units(layer[1].size(1)), h(fast::lanes_of(units)) {
  input = whole_gates(layer[0], units, h);
  state = whole_units(whole_gates(layer[1], units, h), units, h);
  transposed = at::empty({h, 3 * h}, state.options());
  kernels.transpose(3 * h, h, state.data_ptr<float>(), h, transposed.data_ptr<float>(), 3 * h);
  const auto from_states = whole_gates(layer[3], units, h);
  bias = whole_gates(layer[2], units, h).clone();
  bias.narrow(0, 0, 2 * h).add_(from_states.narrow(0, 0, 2 * h));
  new_bias = from_states.narrow(0, 2 * h, h).contiguous();
}

Tensor GruTrace::outputs(const GruLayer& layer) const {
  return states.narrow(0, 1, states.size(0) - 1).narrow(2, 0, layer.units).contiguous();
}
Tensor GruTrace::last(const GruLayer& layer) const {
  return states[states.size(0) - 1].narrow(1, 0, layer.units).contiguous();
}

GruTrace gru_forward(const GruLayer& layer, const Tensor& x) {
  const int64_t steps = x.size(0), n = x.size(1), h = layer.h;
  // All that does not depend on the states is one product for all steps.
  GruTrace trace{at::empty({steps + 1, n, h}),
                 at::addmm(layer.bias, x.flatten(0, 1), layer.input.t()).view({steps, n, 3 * h}),
                 at::empty({steps, n, h})};
  trace.states[0].zero_();
  for (int64_t t = 0; t < steps; ++t)
    layer.kernels.gru_forward_step(n, h, layer.transposed.data_ptr<float>(),
                                   layer.new_bias.data_ptr<float>(), at_step(trace.states, t),
                                   at_step(trace.gates, t), at_step(trace.recurrent, t),
                                   at_step(trace.states, t + 1));
  return trace;
}

Tensor gru_backward(const GruLayer& layer, const Tensor& x, const GruTrace& trace,
                    const Tensor& above, std::span<Tensor> grads, bool want_x) {
  const int64_t steps = x.size(0), n = x.size(1), h = layer.h, units = layer.units;
  const Tensor from_input = at::empty({steps, n, 3 * h}), from_state = at::empty({steps, n, 3 * h});
  const Tensor outer = whole_units(above, units, h);
  const bool every = above.size(0) == steps;
  Tensor state = outer[outer.size(0) - 1].clone();
  for (int64_t t = steps - 1; t >= 0; --t) {
    layer.kernels.gru_backward_step(n, h, t > 0 ? layer.state.data_ptr<float>() : nullptr,
                                    at_step(trace.gates, t), at_step(trace.recurrent, t),
                                    at_step(trace.states, t), state.data_ptr<float>(),
                                    at_step(from_input, t), at_step(from_state, t));
    if (t > 0 && every) state.add_(outer[t - 1]);
  }
  // The weights' gradients are one product over all steps and samples.
  const Tensor inputs = from_input.flatten(0, 1), states = from_state.flatten(0, 1);
  const Tensor before = trace.states.narrow(0, 0, steps).flatten(0, 1);
  keep_gates(inputs.t().mm(x.flatten(0, 1)), units, h, grads[0]);
  keep_gates(states.t().mm(before), units, h, grads[1]);
  keep_gates(inputs.sum(0), units, h, grads[2]);
  keep_gates(states.sum(0), units, h, grads[3]);
  return want_x ? inputs.mm(layer.input).view_as(x) : Tensor();
}

}  // namespace tessera

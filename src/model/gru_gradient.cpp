#include "model/gru_gradient.hpp"

#include <ATen/ATen.h>

#include <algorithm>

namespace tessera {
namespace {

struct Sizes {
  int64_t steps, n, h;
};

float* at_step(const Tensor& tensor, int64_t t) {
  return tensor.data_ptr<float>() + t * tensor.stride(0);
}

/// Sums of both projections [n, 3h] before the gates; the state's part of the proposal is kept
/// apart.
void add_projections(const Sizes& s, const float* input, const float* state, float* gates,
                     float* recurrent) {
  for (int64_t i = 0; i < s.n; ++i, input += 3 * s.h, state += 3 * s.h) {
    for (int64_t k = 0; k < 2 * s.h; ++k) *gates++ = input[k] + state[k];
    std::copy_n(state + 2 * s.h, s.h, recurrent + i * s.h);
  }
}

void propose(const Sizes& s, const float* input, const float* gates, const float* recurrent,
             float* proposal) {
  for (int64_t i = 0; i < s.n; ++i, input += 3 * s.h, gates += 2 * s.h) {
    for (int64_t k = 0; k < s.h; ++k) *proposal++ = input[2 * s.h + k] + gates[k] * *recurrent++;
  }
}

void advance(const Sizes& s, const float* gates, const float* proposal, const float* before,
             float* after) {
  for (int64_t i = 0; i < s.n; ++i, gates += 2 * s.h) {
    for (int64_t k = 0; k < s.h; ++k, ++proposal, ++before) {
      *after++ = *proposal + gates[s.h + k] * (*before - *proposal);
    }
  }
}

/// One step back. `state` [n, h] holds the gradient of the state after the step and is left with
/// the part that reaches the one before directly; `from_input` and `from_state` [n, 3h] get the
/// gradients of the two projections.
void step_back(const Sizes& s, const GruTrace& trace, int64_t t, float* state, float* from_input,
               float* from_state) {
  const float* gates = at_step(trace.gates, t);
  const float* proposal = at_step(trace.proposals, t);
  const float* recurrent = at_step(trace.recurrent, t);
  const float* before = at_step(trace.states, t);
  for (int64_t i = 0; i < s.n;
       ++i, gates += 2 * s.h, from_input += 3 * s.h, from_state += 3 * s.h) {
    for (int64_t k = 0; k < s.h; ++k, ++proposal, ++recurrent, ++before, ++state) {
      const float reset = gates[k];
      const float update = gates[s.h + k];
      const float inner = *state * (1 - update) * (1 - *proposal * *proposal);
      from_input[k] = from_state[k] = inner * *recurrent * reset * (1 - reset);
      from_input[s.h + k] = from_state[s.h + k] =
          *state * (*before - *proposal) * update * (1 - update);
      from_input[2 * s.h + k] = inner;
      from_state[2 * s.h + k] = inner * reset;
      *state *= update;
    }
  }
}

}  // namespace

GruTrace gru_forward(std::span<const Tensor> layer, const Tensor& x) {
  const Sizes s{x.size(0), x.size(1), layer[1].size(1)};
  GruTrace trace{at::empty({s.steps + 1, s.n, s.h}), at::empty({s.steps, s.n, 2 * s.h}),
                 at::empty({s.steps, s.n, s.h}), at::empty({s.steps, s.n, s.h})};
  const auto states = trace.states.unbind(0);
  const auto gates = trace.gates.unbind(0);
  const auto proposals = trace.proposals.unbind(0);
  states[0].zero_();
  const Tensor inputs = at::addmm(layer[2], x.flatten(0, 1), layer[0].t());
  const Tensor recurrent = layer[1].t();
  Tensor projected = at::empty({s.n, 3 * s.h});
  for (int64_t t = 0; t < s.steps; ++t) {
    const auto now = static_cast<size_t>(t);
    const float* input = inputs.data_ptr<float>() + t * s.n * 3 * s.h;
    at::addmm_out(projected, layer[3], states[now], recurrent);
    add_projections(s, input, projected.data_ptr<float>(), at_step(trace.gates, t),
                    at_step(trace.recurrent, t));
    gates[now].sigmoid_();
    propose(s, input, at_step(trace.gates, t), at_step(trace.recurrent, t),
            at_step(trace.proposals, t));
    proposals[now].tanh_();
    advance(s, at_step(trace.gates, t), at_step(trace.proposals, t), at_step(trace.states, t),
            at_step(trace.states, t + 1));
  }
  return trace;
}

Tensor gru_backward(std::span<const Tensor> layer, const Tensor& x, const GruTrace& trace,
                    const Tensor& above, std::span<Tensor> grads, bool want_x) {
  const Sizes s{x.size(0), x.size(1), layer[1].size(1)};
  const Tensor from_input = at::empty({s.steps, s.n, 3 * s.h});
  const Tensor from_state = at::empty({s.steps, s.n, 3 * s.h});
  const auto projections = from_state.unbind(0);
  const int64_t given = above.size(0);
  Tensor state = above[given - 1].clone();
  for (int64_t t = s.steps - 1; t >= 0; --t) {
    step_back(s, trace, t, state.data_ptr<float>(), at_step(from_input, t), at_step(from_state, t));
    if (t == 0) break;
    state.addmm_(projections[static_cast<size_t>(t)], layer[1]);
    if (given == s.steps) state.add_(above[t - 1]);
  }
  // The weights' gradients are one product over all steps and samples.
  const Tensor inputs = from_input.flatten(0, 1);
  const Tensor states = from_state.flatten(0, 1);
  at::mm_out(grads[0], inputs.t(), x.flatten(0, 1));
  at::mm_out(grads[1], states.t(), trace.states.narrow(0, 0, s.steps).flatten(0, 1));
  at::sum_out(grads[2], inputs, 0);
  at::sum_out(grads[3], states, 0);
  return want_x ? inputs.mm(layer[0]).view_as(x) : Tensor();
}

}  // namespace tessera

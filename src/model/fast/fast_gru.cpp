#include "model/fast/fast_gru.hpp"

#include <algorithm>

#include "model/fast/arena.hpp"
#include "model/fast/losses.hpp"
#include "model/fast/per_sample.hpp"

namespace tessera {

using fast::Arena;
using fast::Cutter;

namespace {

constexpr int64_t kSequencesAtATime = 32;  // in evaluation: their states stay close
constexpr int64_t kSlopesAtATime = 64;     // rows that the weights' gradients take at once

}  // namespace

/// Memory of one layer, on whole vectors throughout.
struct FastGru::LayerAt {
  float* packed;                       // for the way forward
  float* bias;                         // [4h]
  float* states;                       // [steps + 1, n, h]; the first is 0
  float* trace;                        // [steps, n, 4h]
  float *state_packed, *input_packed;  // for the way back
};

struct FastGru::Buffers {
  std::vector<LayerAt> layers;
  float* last;    // [n, units]
  float* logits;  // [n, classes]
  // For training alone; one of each serves all layers.
  float *last_grad, *head_scratch;
  float* x;              // the samples step by step: [steps, n, inputs]
  float *above, *below;  // gradients of a layer's states and of its inputs: [steps, n, h]
  float* state_grad;     // [n, h]
  float* slopes;         // of some steps
  float *input_sum, *state_sum, *bias_sum;
  float *room_ih, *room_hh;  // weights of whole vectors, where they are not
  // For gradients of single samples.
  float* all_slopes;                // of all steps
  float *sample_slopes, *sample_x;  // of one sample
};

FastGru::FastGru(const GruSpec& spec, const fast::Kernels& kernels)
    : spec_(spec), kernels_(kernels), h_(fast::lanes_of(spec.hidden)) {
  int64_t at = 0;
  const auto take = [&at](int64_t count) {
    at += count;
    return at - count;
  };
  for (int64_t i = 0; i < spec.layers; ++i) {
    const int64_t gates = 3 * spec.hidden;
    Layer layer{};
    layer.columns = i == 0 ? spec.inputs : spec.hidden;
    layer.inputs = i == 0 ? spec.inputs : h_;
    layer.weight_ih = take(gates * layer.columns), layer.weight_hh = take(gates * spec.hidden);
    layer.bias_ih = take(gates), layer.bias_hh = take(gates);
    layers_.push_back(layer);
  }
  head_weight_ = take(spec.classes * spec.hidden), head_bias_ = take(spec.classes);
}

size_t FastGru::place(int64_t n, int64_t steps, Work work, float* block, Buffers& at) const {
  const bool train = work != Work::kPredict;
  Cutter cut(block);
  const int64_t h = h_;
  int64_t most_inputs = h;
  at.layers.resize(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto inputs = layers_[i].inputs;
    auto& layer = at.layers[i];
    layer.packed = cut.floats((inputs + h) * 3 * h);
    layer.bias = cut.floats(4 * h);
    layer.states = cut.floats((steps + 1) * n * h);
    layer.trace = train ? cut.floats(steps * n * 4 * h) : nullptr;
    if (train) layer.state_packed = cut.floats(3 * h * h);
    if (train && i > 0) layer.input_packed = cut.floats(3 * h * h);
    most_inputs = std::max(most_inputs, inputs);
  }
  at.last = cut.floats(n * spec_.hidden), at.logits = cut.floats(n * spec_.classes);
  at.room_ih = cut.floats(3 * h * most_inputs), at.room_hh = cut.floats(3 * h * h);
  if (!train) return cut.used();

  at.last_grad = cut.floats(n * spec_.hidden), at.head_scratch = cut.floats(n * h);
  at.x = cut.floats(steps * n * spec_.inputs);
  at.above = cut.floats(steps * n * h), at.below = cut.floats(steps * n * h);
  at.state_grad = cut.floats(n * h);
  at.slopes = cut.floats(std::max(kSlopesAtATime, n) * 4 * h);
  at.input_sum = cut.floats(most_inputs * 3 * h), at.state_sum = cut.floats(3 * h * h);
  at.bias_sum = cut.floats(4 * h);
  if (work != Work::kClip) return cut.used();

  at.all_slopes = cut.floats(steps * n * 4 * h), at.sample_slopes = cut.floats(steps * 4 * h);
  at.sample_x = cut.floats(steps * most_inputs);
  return cut.used();
}

FastGru::Buffers FastGru::buffers_for(int64_t n, int64_t steps, Work work) const {
  Buffers at{};
  auto& arena = Arena::of_thread();
  arena.reserve(place(n, steps, work, nullptr, at));
  place(n, steps, work, arena.data(), at);
  return at;
}

const float* FastGru::whole(const float* weight, int64_t columns, int64_t width,
                            float* room) const {
  const int64_t units = spec_.hidden;
  if (units == h_ && columns == width) return weight;
  std::fill_n(room, 3 * h_ * width, 0.0f);
  for (int64_t row = 0; row < 3 * units; ++row)
    std::copy_n(weight + row * columns, columns, room + (row / units * h_ + row % units) * width);
  return room;
}

void FastGru::pack(const float* w, const Buffers& at) const {
  const int64_t units = spec_.hidden;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto& layer = layers_[i];
    const auto& here = at.layers[i];
    const float* ih = whole(w + layer.weight_ih, layer.columns, layer.inputs, at.room_ih);
    const float* hh = whole(w + layer.weight_hh, units, h_, at.room_hh);
    kernels_.gru_pack_forward(layer.inputs, h_, ih, hh, here.packed);
    if (here.state_packed) kernels_.gru_pack_backward(h_, h_, hh, false, here.state_packed);
    if (here.input_packed) kernels_.gru_pack_backward(h_, h_, ih, true, here.input_packed);
    // Reset and update see the sum of their two biases, the new gate has them apart.
    std::fill_n(here.bias, 4 * h_, 0.0f);
    const float *from_input = w + layer.bias_ih, *from_state = w + layer.bias_hh;
    for (int64_t k = 0; k < units; ++k) {
      here.bias[k] = from_input[k] + from_state[k];
      here.bias[h_ + k] = from_input[units + k] + from_state[units + k];
      here.bias[2 * h_ + k] = from_input[2 * units + k];
      here.bias[3 * h_ + k] = from_state[2 * units + k];
    }
  }
}

void FastGru::forward(const float* x, int64_t x_row, int64_t x_step, int64_t n, int64_t steps,
                      const Buffers& at) const {
  const int64_t size = n * h_;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto& here = at.layers[i];
    std::fill_n(here.states, size, 0.0f);
    for (int64_t t = 0; t < steps; ++t)
      kernels_.gru_forward_step(n, layers_[i].inputs, h_, here.packed, here.bias, x + t * x_step,
                                x_row, here.states + t * size,
                                here.trace ? here.trace + 4 * t * size : nullptr,
                                here.states + (t + 1) * size);
    x = here.states + size, x_row = h_, x_step = size;
  }
  const float* last = at.layers.back().states + steps * size;
  for (int64_t i = 0; i < n; ++i)
    std::copy_n(last + i * h_, spec_.hidden, at.last + i * spec_.hidden);
}

void FastGru::backward(size_t layer, int64_t n, int64_t steps, const Buffers& at,
                       float* grad) const {
  const auto& here = at.layers[layer];
  const int64_t size = n * h_, inputs = layers_[layer].inputs;
  const bool every = layer + 1 < layers_.size();  // else only the last states were looked at
  const float* x = layer == 0 ? at.x : at.layers[layer - 1].states + size;
  std::fill_n(at.input_sum, inputs * 3 * h_, 0.0f);
  std::fill_n(at.state_sum, 3 * h_ * h_, 0.0f);
  std::fill_n(at.bias_sum, 4 * h_, 0.0f);
  if (every) std::fill_n(at.state_grad, size, 0.0f);
  const int64_t most = std::max<int64_t>(1, kSlopesAtATime / n);
  for (int64_t end = steps, begin; end > 0; end = begin) {
    begin = std::max<int64_t>(0, end - most);
    const int64_t rows = (end - begin) * n;
    for (int64_t t = end - 1; t >= begin; --t)
      kernels_.gru_backward_step(n, h_, t > 0 ? here.state_packed : nullptr,
                                 here.trace + 4 * t * size, here.states + t * size,
                                 every ? at.above + t * size : nullptr, at.state_grad, rows,
                                 (t - begin) * n, at.slopes);
    if (layer > 0)
      kernels_.gru_input_grad(rows, h_, inputs, at.slopes, here.input_packed,
                              at.below + begin * size);
    kernels_.gru_weight_grad(rows, h_, inputs, at.slopes, x + begin * n * inputs, false,
                             at.input_sum);
    kernels_.gru_weight_grad(rows, h_, h_, at.slopes, here.states + begin * size, true,
                             at.state_sum);
    kernels_.gru_bias_grad(rows, h_, at.slopes, at.bias_sum);
  }
  unpack_gradient(layer, at, grad);
}

void FastGru::unpack_gradient(size_t layer, const Buffers& at, float* grad) const {
  const auto& l = layers_[layer];
  const int64_t units = spec_.hidden;
  for (int64_t gate = 0; gate < 3; ++gate) {
    const int64_t from_input = (gate + 1) % 3 * h_, from_state = gate * h_;
    kernels_.transpose(l.columns, units, at.input_sum + from_input, 3 * h_,
                       grad + l.weight_ih + gate * units * l.columns, l.columns);
    kernels_.transpose(units, units, at.state_sum + from_state, 3 * h_,
                       grad + l.weight_hh + gate * units * units, units);
    std::copy_n(at.bias_sum + from_input, units, grad + l.bias_ih + gate * units);
    std::copy_n(at.bias_sum + h_ + from_state, units, grad + l.bias_hh + gate * units);
  }
}

double FastGru::loss_of(const float* w, const Batch& batch, const Loss& loss,
                        const Buffers& at) const {
  const auto [x, n, steps, y] = batch;
  const int64_t inputs = spec_.inputs;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t t = 0; t < steps; ++t)
      std::copy_n(x + (i * steps + t) * inputs, inputs, at.x + (t * n + i) * inputs);
  pack(w, at);
  forward(at.x, inputs, n * inputs, n, steps, at);
  kernels_.linear_forward(n, spec_.hidden, spec_.classes, at.last, w + head_weight_, w + head_bias_,
                          false, at.logits);
  return fast::loss_and_grad(loss, n, spec_.classes, y, at.logits);
}

void FastGru::start_back(const float* w, int64_t n, const Buffers& at) const {
  const int64_t units = spec_.hidden;
  kernels_.linear_input_grad(n, units, spec_.classes, at.logits, w + head_weight_, at.last_grad);
  std::fill_n(at.state_grad, n * h_, 0.0f);
  for (int64_t i = 0; i < n; ++i)
    std::copy_n(at.last_grad + i * units, units, at.state_grad + i * h_);
}

void FastGru::gradient(const float* w, int64_t n, int64_t steps, Buffers& at, float* grad) const {
  kernels_.linear_weight_grad(n, spec_.hidden, spec_.classes, at.last, at.logits, at.head_scratch,
                              grad + head_weight_, grad + head_bias_);
  start_back(w, n, at);
  for (size_t i = layers_.size(); i-- > 0;) {
    backward(i, n, steps, at, grad);
    std::swap(at.above, at.below);
  }
}

void FastGru::value_and_grad(const float* w, const Batch& batch, const Loss& loss, float* grad,
                             double& value) const {
  auto at = buffers_for(batch.n, batch.steps, Work::kTrain);
  value = loss_of(w, batch, loss, at);
  gradient(w, batch.n, batch.steps, at, grad);
}

void FastGru::clipped_gradient(const float* w, const Batch& batch, const Loss& loss,
                               const Clip& clip, float* grad, std::vector<double>& norms,
                               double& value) const {
  const int64_t n = batch.n;
  auto at = buffers_for(n, batch.steps, Work::kClip);
  value = loss_of(w, batch, loss, at);
  norms = fast::norms_of(squares(w, n, batch.steps, at));
  fast::clip_rows(clip, n, n, spec_.classes, norms.data(), at.logits);
  gradient(w, n, batch.steps, at, grad);
}

std::vector<double> FastGru::squares(const float* w, int64_t n, int64_t steps, Buffers& at) const {
  const int64_t units = spec_.hidden, classes = spec_.classes;
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i)  // an outer product needs no product
    out.push_back((1.0 + fast::squares_of(at.last + i * units, units)) *
                  fast::squares_of(at.logits + i * classes, classes));
  start_back(w, n, at);
  for (size_t i = layers_.size(); i-- > 0;) {
    add_squares(i, n, steps, at, out);
    std::swap(at.above, at.below);
  }
  return out;
}

// One way back for all samples; then the products over a sample's steps, as for a batch.
void FastGru::add_squares(size_t layer, int64_t n, int64_t steps, const Buffers& at,
                          std::vector<double>& out) const {
  const auto& here = at.layers[layer];
  const int64_t size = n * h_, inputs = layers_[layer].inputs, rows = steps * n;
  const bool every = layer + 1 < layers_.size();
  const float* x = layer == 0 ? at.x : at.layers[layer - 1].states + size;
  if (every) std::fill_n(at.state_grad, size, 0.0f);
  for (int64_t t = steps - 1; t >= 0; --t)
    kernels_.gru_backward_step(n, h_, t > 0 ? here.state_packed : nullptr,
                               here.trace + 4 * t * size, here.states + t * size,
                               every ? at.above + t * size : nullptr, at.state_grad, rows, t * n,
                               at.all_slopes);
  if (layer > 0)
    kernels_.gru_input_grad(rows, h_, inputs, at.all_slopes, here.input_packed, at.below);

  const int64_t panel = kernels_.gru_panel(h_);
  const auto one_of = [&](const float* all, int64_t i, int64_t width, float* one) {
    for (int64_t t = 0; t < steps; ++t)
      std::copy_n(all + (t * n + i) * width, width, one + t * width);
  };
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t begin = 0; begin < 4 * h_; begin += panel)
      one_of(at.all_slopes + begin * rows, i, panel, at.sample_slopes + begin * steps);
    std::fill_n(at.input_sum, inputs * 3 * h_, 0.0f);
    std::fill_n(at.state_sum, 3 * h_ * h_, 0.0f);
    std::fill_n(at.bias_sum, 4 * h_, 0.0f);
    one_of(x, i, inputs, at.sample_x);
    kernels_.gru_weight_grad(steps, h_, inputs, at.sample_slopes, at.sample_x, false, at.input_sum);
    one_of(here.states, i, h_, at.sample_x);
    kernels_.gru_weight_grad(steps, h_, h_, at.sample_slopes, at.sample_x, true, at.state_sum);
    kernels_.gru_bias_grad(steps, h_, at.sample_slopes, at.bias_sum);
    out[static_cast<size_t>(i)] += fast::squares_of(at.input_sum, inputs * 3 * h_) +
                                   fast::squares_of(at.state_sum, 3 * h_ * h_) +
                                   fast::squares_of(at.bias_sum, 3 * h_) +
                                   fast::squares_of(at.bias_sum + h_, 3 * h_);
  }
}

void FastGru::predict(const float* w, const float* x, int64_t n, int64_t steps,
                      float* logits) const {
  if (n == 0) return;
  const auto at = buffers_for(std::min(n, kSequencesAtATime), steps, Work::kPredict);
  const int64_t row = steps * spec_.inputs;
  pack(w, at);
  for (int64_t begin = 0; begin < n; begin += kSequencesAtATime) {
    const int64_t size = std::min(kSequencesAtATime, n - begin);
    forward(x + begin * row, row, spec_.inputs, size, steps, at);
    kernels_.linear_forward(size, spec_.hidden, spec_.classes, at.last, w + head_weight_,
                            w + head_bias_, false, logits + begin * spec_.classes);
  }
}

}  // namespace tessera

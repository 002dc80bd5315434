// The Hessian times a vector by Pearlmutter's R-operator: each pass of the gradient differentiated
// along v. ReLU and max-pool choose entries; along v the same entries are chosen again.

#include <algorithm>

#include "model/fast/arena.hpp"
#include "model/fast/fast_net.hpp"
#include "model/fast/fast_net_buffers.hpp"
#include "model/fast/losses.hpp"

namespace tessera {

using fast::Arena;
using fast::ConvShape;
using fast::Cutter;
using fast::inner;
using fast::Plane;
using fast::reading;

/// One call: arguments, values and their gradients (`at`), both along v (`along`), scratch.
struct FastNet::Curvature {
  const float *w, *v, *x;
  int64_t n;
  Buffers at, along;
  float* rows;   // [n, widest layer]
  float* zeros;  // [widest layer]
  float* layer;  // gradient of the largest linear layer
};

namespace {

void add_to(float* sum, const float* more, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] += more[i];
}

/// Max-pool and ReLU along a direction: the change of each winner, or 0.
void pool_along(const ConvShape& s, int64_t images, const float* y, const float* bias,
                const Plane<float>& out, const int32_t* winner) {
  const int64_t lanes = s.out_lanes();
  for (int64_t i = 0; i < images; ++i)
    for (int64_t row = 0; row < s.pooled_h; ++row)
      for (int64_t column = 0; column < s.pooled_w; ++column, winner += lanes) {
        const int64_t corner = (row * s.out_w + column) * s.pool_stride;
        const float* window = y + i * s.output_size() + corner * lanes;
        float* to = out.first + i * out.image + row * out.row + column * out.pixel;
        for (int64_t c = 0; c < s.out; ++c) {
          const int64_t at = winner[c];
          const int64_t there = (at / s.pool * s.out_w + at % s.pool) * lanes + c;
          to[c] = at < 0 ? 0.0f : window[there] + bias[c];
        }
      }
}

}  // namespace

void FastNet::along_conv(size_t layer, const Curvature& p) const {
  const auto& conv = convs_[layer];
  const auto& s = conv.shape;
  const bool last = layer + 1 == convs_.size();
  kernels_.pack_forward(s, p.w + conv.weight, p.at.packed);
  kernels_.pack_forward(s, p.v + conv.weight, p.along.packed);
  std::fill_n(p.along.bias, s.out_lanes(), 0.0f);
  std::copy_n(p.v + conv.bias, s.out, p.along.bias);
  if (!last && convs_[layer + 1].shape.border > 0)
    std::fill_n(p.along.convs[layer + 1].input, p.n * convs_[layer + 1].shape.input_size(), 0.0f);
  const float* input = conv_input(layer, p.x, p.at);
  for (int64_t i = 0; i < p.n; i += conv.group) {
    const int64_t images = std::min(conv.group, p.n - i);
    kernels_.conv_forward(s, images, input + i * s.input_size(), p.along.packed, p.along.y);
    if (layer > 0) {  // the sample itself does not change
      const float* change = p.along.convs[layer].input + i * s.input_size();
      kernels_.conv_forward(s, images, change, p.at.packed, p.at.y);
      add_to(p.along.y, p.at.y, images * s.output_size());
    }
    const int64_t size = s.pooled_h * s.pooled_w * s.out;
    const Plane<float> out =
        last ? Plane<float>{p.along.image + i * size, s.out, s.pooled_w * s.out, size}
             : inner(p.along.convs[layer + 1].input, convs_[layer + 1].shape, s.out, i);
    pool_along(s, images, p.along.y, p.along.bias, out,
               p.at.convs[layer].winner + i * s.pooled_size());
  }
}

void FastNet::along_forward(const Curvature& p) const {
  const float *input = p.x, *change = nullptr;
  if (!convs_.empty()) {
    for (size_t i = 0; i < convs_.size(); ++i) along_conv(i, p);
    flatten(p.n, p.along);
    input = p.at.flat, change = p.along.flat;
  }
  for (size_t i = 0; i < linears_.size(); ++i) {
    const auto& l = linears_[i];
    float* out = p.along.linear_out[i];
    kernels_.linear_forward(p.n, l.in, l.out, input, p.v + l.weight, p.v + l.bias, false, out);
    if (change != nullptr) {
      kernels_.linear_forward(p.n, l.in, l.out, change, p.w + l.weight, p.zeros, false, p.rows);
      add_to(out, p.rows, p.n * l.out);
    }
    if (l.relu) kernels_.relu_backward(p.n * l.out, p.at.linear_out[i], out);
    input = p.at.linear_out[i], change = out;
  }
}

void FastNet::along_linears(const Curvature& p, float* product) const {
  const float* grad = p.at.linear_out[linears_.size() - 1];
  const float* grad_along = p.along.linear_out[linears_.size() - 1];
  for (size_t i = linears_.size(); i-- > 0;) {
    const auto& l = linears_[i];
    const bool first = i == 0 && convs_.empty();
    const float* input = i > 0 ? p.at.linear_out[i - 1] : first ? p.x : p.at.flat;
    kernels_.linear_weight_grad(p.n, l.in, l.out, input, grad_along, p.at.panels,
                                product + l.weight, product + l.bias);
    if (first) return;
    const float* change = i > 0 ? p.along.linear_out[i - 1] : p.along.flat;
    kernels_.linear_weight_grad(p.n, l.in, l.out, change, grad, p.at.panels, p.layer,
                                p.layer + l.in * l.out);
    add_to(product + l.weight, p.layer, l.in * l.out);

    float *below = p.at.linear_grad[i], *below_along = p.along.linear_grad[i];
    kernels_.linear_input_grad(p.n, l.in, l.out, grad, p.w + l.weight, below);
    kernels_.linear_input_grad(p.n, l.in, l.out, grad_along, p.w + l.weight, below_along);
    kernels_.linear_input_grad(p.n, l.in, l.out, grad, p.v + l.weight, p.rows);
    add_to(below_along, p.rows, p.n * l.in);
    if (i > 0 && linears_[i - 1].relu) {
      kernels_.relu_backward(p.n * l.in, p.at.linear_out[i - 1], below);
      kernels_.relu_backward(p.n * l.in, p.at.linear_out[i - 1], below_along);
    }
    grad = below, grad_along = below_along;
  }
}

void FastNet::along_conv_back(size_t layer, const Curvature& p, float* product) const {
  const auto& conv = convs_[layer];
  const auto& s = conv.shape;
  std::fill_n(p.along.weight_grad, s.depth() * s.out_lanes(), 0.0f);
  std::fill_n(p.along.bias, s.out_lanes(), 0.0f);
  if (layer > 0) {
    kernels_.pack_backward(s, p.w + conv.weight, p.at.packed);
    kernels_.pack_backward(s, p.v + conv.weight, p.along.packed);
    for (const auto* side : {&p.at, &p.along})
      std::fill_n(side->convs[layer].grad, p.n * s.input_grad_size(), 0.0f);
  }
  const float* input = conv_input(layer, p.x, p.at);
  for (int64_t i = 0; i < p.n; i += conv.group) {
    const int64_t images = std::min(conv.group, p.n - i);
    const int32_t* winner = p.at.convs[layer].winner + i * s.pooled_size();
    kernels_.pool_backward(s, images, reading(above(layer, i, p.along)), winner, p.along.y,
                           p.along.bias);
    kernels_.conv_weight_grad(s, images, input + i * s.input_size(), p.along.y,
                              p.along.weight_grad);
    if (layer == 0) continue;
    kernels_.pool_backward(s, images, reading(above(layer, i, p.at)), winner, p.at.y, p.at.bias);
    kernels_.conv_weight_grad(s, images, p.along.convs[layer].input + i * s.input_size(), p.at.y,
                              p.along.weight_grad);
    float* below = p.at.convs[layer].grad + i * s.input_grad_size();
    float* below_along = p.along.convs[layer].grad + i * s.input_grad_size();
    kernels_.conv_input_grad(s, images, p.at.y, p.at.packed, below);
    kernels_.conv_input_grad(s, images, p.along.y, p.at.packed, below_along);
    kernels_.conv_input_grad(s, images, p.at.y, p.along.packed, below_along);
  }
  kernels_.unpack_grad(s, p.along.weight_grad, product + conv.weight);
  std::copy_n(p.along.bias, s.out, product + conv.bias);
}

bool FastNet::hessian_times(const float* w, const Tensor& x, const Tensor& y, Loss loss,
                            const float* v, float* product) const {
  if (!accepts(x, y)) return false;
  const Tensor samples = x.contiguous(), labels = y.contiguous();
  Curvature p{w, v, samples.data_ptr<float>(), x.size(0), {}, {}, nullptr, nullptr, nullptr};
  int64_t widest = 0, largest = 0;
  for (const auto& l : linears_) {
    widest = std::max({widest, l.in, l.out});
    largest = std::max(largest, (l.in + 1) * l.out);
  }
  const auto place_all = [&](float* block) {
    const auto shifted = [&](size_t by) { return block == nullptr ? nullptr : block + by; };
    size_t used = place(p.n, true, block, p.at);
    used += place(p.n, true, shifted(used), p.along);
    Cutter cut(shifted(used));
    p.rows = cut.floats(p.n * widest), p.zeros = cut.floats(widest), p.layer = cut.floats(largest);
    return used + cut.used();
  };
  auto& arena = Arena::of_thread();
  arena.reserve(place_all(nullptr));
  place_all(arena.data());
  p.at.train = p.along.train = true;
  std::fill_n(p.zeros, widest, 0.0f);

  forward(w, p.x, p.n, p.at);
  along_forward(p);
  const size_t top = linears_.size() - 1;
  const auto* truth = labels.data_ptr<int64_t>();
  // In this order: the second replaces the logits, which the first needs.
  fast::loss_grad_along(loss, p.n, classes(), truth, p.at.linear_out[top], p.along.linear_out[top]);
  fast::loss_and_grad(loss, p.n, classes(), truth, p.at.linear_out[top]);
  along_linears(p, product);
  if (convs_.empty()) return true;
  for (const auto* side : {&p.at, &p.along}) unflatten(p.n, *side);
  for (size_t i = convs_.size(); i-- > 0;) along_conv_back(i, p, product);
  return true;
}

}  // namespace tessera

#include "model/fast/per_sample.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/fast/fast_net_buffers.hpp"
#include "model/fast/losses.hpp"

namespace tessera {
namespace fast {

double squares_of(const float* x, int64_t count) {
  constexpr int64_t kLanes = 8;  // sums beside each other, so that vectors can hold them
  std::array<double, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k)
      sums[static_cast<size_t>(k)] += static_cast<double>(x[i + k]) * static_cast<double>(x[i + k]);
  for (; i < count; ++i) sums[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double out = 0;
  for (const double sum : sums) out += sum;
  return out;
}

std::vector<double> norms_of(const std::vector<double>& squares) {
  std::vector<double> out;
  const auto n = static_cast<double>(squares.size());
  for (const double square : squares) out.push_back(n * std::sqrt(square));
  return out;
}

void clip_rows(const Clip& clip, int64_t total, int64_t n, int64_t classes, const double* norms,
               float* rows) {
  const double mean = static_cast<double>(total) / clip.count;
  for (int64_t i = 0; i < n; ++i) {
    const double factor = mean * (norms[i] > clip.bound ? clip.bound / norms[i] : 1.0);
    if (factor == 1.0) continue;
    for (int64_t k = i * classes; k < (i + 1) * classes; ++k)
      rows[k] = static_cast<float>(rows[k] * factor);
  }
}

}  // namespace fast

// A linear layer's gradient of one sample is an outer product: its norm needs no product at all.
void FastNet::add_linears(const float* w, const float* x, int64_t n, const Buffers& at,
                          std::vector<double>& squares) const {
  const float* out_grad = at.linear_out[linears_.size() - 1];
  for (size_t i = linears_.size(); i-- > 0;) {
    const auto& l = linears_[i];
    const float* input = i > 0 ? at.linear_out[i - 1] : convs_.empty() ? x : at.flat;
    for (int64_t j = 0; j < n; ++j)
      squares[static_cast<size_t>(j)] += (1.0 + fast::squares_of(input + j * l.in, l.in)) *
                                         fast::squares_of(out_grad + j * l.out, l.out);
    if (i == 0 && convs_.empty()) return;
    kernels_.linear_input_grad(n, l.in, l.out, out_grad, w + l.weight, at.linear_grad[i]);
    if (i > 0 && linears_[i - 1].relu)
      kernels_.relu_backward(n * l.in, at.linear_out[i - 1], at.linear_grad[i]);
    if (i > 0) finish_linear_back(i - 1, n, at, at.linear_grad[i], nullptr);
    out_grad = at.linear_grad[i];
  }
}

// A convolution's is a sum over pixels: formed for one image after the other, and forgotten.
void FastNet::add_conv(size_t layer, const float* w, const float* x, int64_t n, const Buffers& at,
                       std::vector<double>& squares) const {
  const auto& conv = convs_[layer];
  const auto& s = conv.shape;
  const float* input = conv_input(layer, x, at);
  const int64_t numbers = s.depth() * s.out_lanes();
  if (conv.dropout > 0) drop_conv(layer, n, above(layer, 0, at), at);
  if (layer > 0) {
    kernels_.pack_backward(s, w + conv.weight, at.packed);
    std::fill_n(at.convs[layer].grad, n * s.input_grad_size(), 0.0f);
  }
  for (int64_t i = 0; i < n; ++i) {
    std::fill_n(at.weight_grad, numbers, 0.0f);
    std::fill_n(at.bias, s.out_lanes(), 0.0f);
    kernels_.pool_backward(s, 1, reading(above(layer, i, at)),
                           at.convs[layer].winner + i * s.pooled_size(), at.y, at.bias);
    kernels_.conv_weight_grad(s, 1, input + i * s.input_size(), at.y, at.weight_grad);
    squares[static_cast<size_t>(i)] +=
        fast::squares_of(at.weight_grad, numbers) + fast::squares_of(at.bias, s.out);
    if (layer > 0)
      kernels_.conv_input_grad(s, 1, at.y, at.packed,
                               at.convs[layer].grad + i * s.input_grad_size());
  }
}

bool FastNet::clipped_gradient(const float* w, const Tensor& x, const Tensor& y, Loss loss,
                               const Clip& clip, float* grad, std::vector<double>& norms,
                               double& value) const {
  if (!accepts(x, y)) return false;
  const int64_t n = x.size(0);
  const Tensor samples = x.contiguous(), labels = y.contiguous();
  const float* data = samples.data_ptr<float>();

  const Training training{clip.key, nullptr};  // there are no running values: no batch norms
  const auto at = buffers_for(n, true, &training);
  forward(w, data, n, at);
  float* logits = at.linear_out[linears_.size() - 1];
  value = fast::loss_and_grad(loss, n, classes(), labels.data_ptr<int64_t>(), logits);
  std::vector<double> squares(static_cast<size_t>(n), 0.0);
  add_linears(w, data, n, at, squares);
  if (!convs_.empty()) unflatten(n, at);
  for (size_t i = convs_.size(); i-- > 0;) add_conv(i, w, data, n, at, squares);
  norms = fast::norms_of(squares);
  fast::clip_rows(clip, n, n, classes(), norms.data(), logits);
  backward(w, data, n, at, grad);
  return true;
}

}  // namespace tessera

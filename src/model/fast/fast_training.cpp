// What sequential networks do in training alone: batch norm and dropout, both ways.

#include <algorithm>
#include <cmath>

#include "base/key.hpp"
#include "model/fast/fast_net.hpp"
#include "model/fast/fast_net_buffers.hpp"
#include "model/layers.hpp"

namespace tessera {

using fast::Plane;
using fast::reading;

namespace {

/// Running mean and variance [2, width] of one norm; a sum over `values` numbers a channel.
struct Running {
  float *mean, *variance;
  double values;

  /// With one value a channel there is no variance: the running ones serve, and stay.
  bool by_batch() const { return values > 1; }
  void move(int64_t channel, double batch_mean, double squares) const {
    const auto towards = [](float& value, double to) {
      value = static_cast<float>((1 - kNormMomentum) * value + kNormMomentum * to);
    };
    towards(mean[channel], batch_mean);
    towards(variance[channel], squares / (values - 1));
  }
};

float inverse_deviation(double variance) {
  return static_cast<float>(1 / std::sqrt(variance + kNormEpsilon));
}

}  // namespace

FastNet::Norm FastNet::next_norm(bool there, int64_t width) {
  if (!there) return {};
  const Norm norm{parameters_, running_};
  parameters_ += 2 * width, running_ += 2 * width;
  return norm;
}

void FastNet::norm_conv(size_t layer, const float* w, int64_t n, const Buffers& at) const {
  const auto& conv = convs_[layer];
  const auto& s = conv.shape;
  const auto& here = at.convs[layer];
  const auto& norm = here.norm;
  const int64_t lanes = s.out_lanes(), pixels = s.out_h * s.out_w;
  // Moments group by group, while a group is still close, joined by Chan's formula.
  float *mean = norm.mean, *squares = norm.inverse;
  std::fill_n(mean, lanes, 0.0f), std::fill_n(squares, lanes, 0.0f);
  for (int64_t i = 0; i < n; i += conv.group) {
    const int64_t images = std::min(conv.group, n - i);
    kernels_.batch_moments(images * pixels, lanes, here.y + i * s.output_size(), norm.plain,
                           norm.along);
    const auto share = static_cast<float>(images) / static_cast<float>(i + images);
    const auto between = share * static_cast<float>(i * pixels);
    for (int64_t c = 0; c < lanes; ++c) {
      const float gap = norm.plain[c] - mean[c];
      mean[c] += gap * share, squares[c] += norm.along[c] + gap * gap * between;
    }
  }
  float* stored = at.training->running + conv.norm.running;
  const Running running{stored, stored + s.out, static_cast<double>(n * pixels)};
  const float *weight = w + conv.norm.weight, *bias = weight + s.out;
  std::fill_n(norm.scale, lanes, 0.0f);
  for (int64_t c = 0; c < s.out; ++c) {
    // The kernels leave the convolution's bias out: it only shifts the mean.
    const float shift = w[conv.bias + c];
    double variance = squares[c] / running.values;
    if (running.by_batch()) {
      running.move(c, static_cast<double>(mean[c]) + shift, squares[c]);
    } else {
      mean[c] = running.mean[c] - shift, variance = running.variance[c];
    }
    norm.inverse[c] = inverse_deviation(variance);
    norm.scale[c] = weight[c] * norm.inverse[c];
    at.bias[c] = bias[c];
  }
  for (int64_t i = 0; i < n; i += conv.group)
    kernels_.batch_pool_forward(s, std::min(conv.group, n - i), here.y + i * s.output_size(),
                                {norm.mean, norm.scale}, at.bias, pooled(layer, i, at),
                                here.winner + i * s.pooled_size());
}

void FastNet::norm_conv_back(size_t layer, int64_t n, const Buffers& at, float* grad) const {
  const auto& conv = convs_[layer];
  const auto& s = conv.shape;
  const auto& here = at.convs[layer];
  const auto& norm = here.norm;
  const int64_t lanes = s.out_lanes();
  float *plain = at.bias, *along = at.weight_grad;  // of a group; both are free as yet
  std::fill_n(norm.plain, lanes, 0.0f), std::fill_n(norm.along, lanes, 0.0f);
  for (int64_t i = 0; i < n; i += conv.group) {
    kernels_.batch_pool_sums(s, std::min(conv.group, n - i), reading(above(layer, i, at)),
                             here.winner + i * s.pooled_size(), here.y + i * s.output_size(),
                             norm.mean, plain, along);
    for (int64_t c = 0; c < lanes; ++c) norm.plain[c] += plain[c], norm.along[c] += along[c];
  }
  const int64_t values = n * s.out_h * s.out_w;
  const float share = values > 1 ? 1.0f / static_cast<float>(values) : 0.0f;
  float *weight_grad = grad + conv.norm.weight, *bias_grad = weight_grad + s.out;
  for (int64_t c = 0; c < s.out; ++c) {
    weight_grad[c] = norm.along[c] * norm.inverse[c], bias_grad[c] = norm.plain[c];
    // A batch's mean takes the convolution's bias away again.
    grad[conv.bias + c] = values > 1 ? 0.0f : norm.plain[c] * norm.scale[c];
    norm.along[c] *= norm.inverse[c] * norm.inverse[c] * share;
    norm.plain[c] *= share;
  }
}

void FastNet::drop_conv(size_t layer, int64_t n, const Plane<float>& plane,
                        const Buffers& at) const {
  const auto& s = convs_[layer].shape;
  const float* mask = at.convs[layer].mask;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < s.out; ++c)
      for (int64_t row = 0; row < s.pooled_h; ++row) {
        float* to = plane.first + i * plane.image + row * plane.row + c;
        for (int64_t column = 0; column < s.pooled_w; ++column) to[column * plane.pixel] *= *mask++;
      }
}

void FastNet::finish_linear(size_t layer, const float* w, int64_t n, const Buffers& at) const {
  const auto& l = linears_[layer];
  const auto& here = at.linears[layer];
  float* out = at.linear_out[layer];
  if (l.norm) {
    float* stored = at.training->running + l.norm.running;
    const Running running{stored, stored + l.out, static_cast<double>(n)};
    const float *weight = w + l.norm.weight, *bias = weight + l.out;
    for (int64_t o = 0; o < l.out; ++o) {
      double mean = running.mean[o], variance = running.variance[o];
      if (running.by_batch()) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < n; ++i) sum += out[i * l.out + o];
        mean = sum / running.values;
        for (int64_t i = 0; i < n; ++i) {
          const double gap = out[i * l.out + o] - mean;
          squares += gap * gap;
        }
        variance = squares / running.values;
        running.move(o, mean, squares);
      }
      const float inverse = inverse_deviation(variance), middle = static_cast<float>(mean);
      here.norm.scale[o] = weight[o] * inverse;
      for (int64_t i = 0; i < n; ++i) {
        const float unit = (out[i * l.out + o] - middle) * inverse;
        const float value = unit * weight[o] + bias[o];
        here.unit[i * l.out + o] = unit;
        out[i * l.out + o] = l.relu && value <= 0 ? 0.0f : value;
      }
    }
  }
  if (l.dropout > 0) {
    draw_mask(n * l.out, l.dropout, derive(at.training->key, layer), here.mask);
    for (int64_t i = 0; i < n * l.out; ++i) out[i] *= here.mask[i];
  }
}

void FastNet::finish_linear_back(size_t layer, int64_t n, const Buffers& at, float* out_grad,
                                 float* grad) const {
  const auto& l = linears_[layer];
  const auto& here = at.linears[layer];
  if (l.dropout > 0)
    for (int64_t i = 0; i < n * l.out; ++i) out_grad[i] *= here.mask[i];
  if (!l.norm) return;
  float *weight_grad = grad + l.norm.weight, *bias_grad = weight_grad + l.out;
  std::fill_n(weight_grad, 2 * l.out, 0.0f);
  for (int64_t i = 0; i < n * l.out; ++i) {
    weight_grad[i % l.out] += out_grad[i] * here.unit[i];
    bias_grad[i % l.out] += out_grad[i];
  }
  const float share = n > 1 ? 1.0f / static_cast<float>(n) : 0.0f;
  for (int64_t i = 0; i < n * l.out; ++i) {
    const int64_t o = i % l.out;
    const float common = (bias_grad[o] + here.unit[i] * weight_grad[o]) * share;
    out_grad[i] = here.norm.scale[o] * (out_grad[i] - common);
  }
}

}  // namespace tessera

#include "model/fast/fast_net.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/key.hpp"
#include "model/fast/arena.hpp"
#include "model/fast/fast_net_buffers.hpp"
#include "model/fast/losses.hpp"
#include "model/layers.hpp"

namespace tessera {

using fast::Arena;
using fast::ConvShape;
using fast::Cutter;
using fast::inner;
using fast::kMostLayers;
using fast::Plane;
using fast::reading;

namespace {

ConvShape shape_of(const ConvStage& stage, int64_t height, int64_t width) {
  ConvShape s{};
  s.in = stage.in, s.out = stage.out, s.kernel = stage.kernel, s.border = stage.pad;
  s.height = height + 2 * stage.pad, s.width = width + 2 * stage.pad;
  s.pool = std::max<int64_t>(stage.pool, 1);
  s.pool_stride = stage.pool > 0 ? stage.pool_stride : 1;
  s.out_h = s.height - s.kernel + 1, s.out_w = s.width - s.kernel + 1;
  s.pooled_h = (s.out_h - s.pool) / s.pool_stride + 1;
  s.pooled_w = (s.out_w - s.pool) / s.pool_stride + 1;
  return s;
}

// NCHW samples to bordered NHWC.
void place_sample(const ConvShape& s, int64_t n, const float* x, float* out) {
  const int64_t height = s.height - 2 * s.border, width = s.width - 2 * s.border;
  if (s.border > 0) std::fill_n(out, n * s.input_size(), 0.0f);
  const auto to = inner(out, s, s.in, 0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < s.in; ++c)
      for (int64_t row = 0; row < height; ++row, x += width) {
        float* line = to.first + i * to.image + row * to.row + c;
        for (int64_t column = 0; column < width; ++column) line[column * s.in] = x[column];
      }
}

/// Inner pixels of a bordered CHW image, of which every number is `side` floats.
Plane<float> side_inner(float* image, const ConvShape& s, int64_t side) {
  return {image + s.border * (s.width + 1) * side, side, s.width * side, s.height * s.width * side};
}

constexpr int64_t kPixelsAtATime = 256;
constexpr int64_t kSamplesAtATime = 64;  // in evaluation

}  // namespace

bool FastNet::supports(const SequentialSpec& spec) {
  if (spec.linears.size() > kMostLayers || spec.convs.size() > kMostLayers) return false;
  if (spec.linears.empty() || (!spec.convs.empty() && spec.sample.size() != 3)) return false;
  if (spec.activation != Activation::kRelu) return false;
  for (const auto& conv : spec.convs)
    if (conv.stride > 1 || conv.pool > 3) return false;
  const auto& head = spec.linears.back();
  return !head.batch_norm && head.dropout == 0;
}

FastNet::FastNet(const SequentialSpec& spec) : FastNet(spec, fast::kernels()) {}

FastNet::FastNet(const SequentialSpec& spec, const fast::Kernels& kernels) : kernels_(kernels) {
  if (!supports(spec)) throw std::invalid_argument("FastNet: a network it does not support");
  sample_size_ = 1;
  for (const auto side : spec.sample) sample_size_ *= side;
  int64_t height = spec.convs.empty() ? 1 : spec.sample[1];
  int64_t width = spec.convs.empty() ? 1 : spec.sample[2];
  int64_t features = sample_size_;
  for (const auto& stage : spec.convs) {
    Conv conv{shape_of(stage, height, width), stage.dropout, 0, 0, {}, 0};
    const auto& s = conv.shape;
    conv.group = std::max<int64_t>(1, kPixelsAtATime / (s.out_h * s.out_w));
    conv.weight = parameters_, parameters_ += s.out * s.depth();
    conv.bias = parameters_, parameters_ += s.out;
    conv.norm = next_norm(stage.batch_norm, s.out);
    height = s.pooled_h, width = s.pooled_w, features = s.out * height * width;
    convs_.push_back(conv);
  }
  for (const auto& stage : spec.linears) {
    if (stage.in != features) throw std::invalid_argument("FastNet: layers do not fit together");
    Linear linear{stage.in, stage.out, stage.relu, stage.dropout, 0, 0, {}};
    linear.weight = parameters_, parameters_ += stage.in * stage.out;
    linear.bias = parameters_, parameters_ += stage.out;
    linear.norm = next_norm(stage.batch_norm, stage.out);
    features = stage.out;
    linears_.push_back(linear);
  }
  linears_.back().relu = false;
  side_by_side_ = better_side_by_side();
}

bool FastNet::better_side_by_side() const {
  const int64_t wide = kernels_.side;
  double products = 0, done = 0;
  for (const auto& conv : convs_) {
    const auto& s = conv.shape;
    if (s.pool_stride < s.pool) return false;  // windows that overlap would be computed again
    const int64_t each = s.depth() * s.out_h * s.out_w;
    products += static_cast<double>(each * s.out);
    done += static_cast<double>(each * ((s.out + wide - 1) / wide * wide));
  }
  return products < 0.9 * done;
}

size_t FastNet::arena_size() { return Arena::of_thread().size(); }

bool FastNet::reads_sample_directly() const {
  return convs_[0].shape.in == 1 && convs_[0].shape.border == 0;
}

const float* FastNet::conv_input(size_t layer, const float* x, const Buffers& at) const {
  return layer == 0 && reads_sample_directly() ? x : at.convs[layer].input;
}

// The convolutions take a few samples at a time.
size_t FastNet::place_side(int64_t n, Cutter& cut, Buffers& at) const {
  for (size_t i = 0; i < convs_.size(); ++i)
    at.convs[i].side = cut.floats(convs_[i].shape.input_size() * kernels_.side);
  at.side = cut.floats(linears_[0].in * kernels_.side);
  at.flat = cut.floats(n * linears_[0].in);
  for (size_t i = 0; i < linears_.size(); ++i) at.linear_out[i] = cut.floats(n * linears_[i].out);
  return cut.used();
}

// In evaluation only one group of winners and nothing of the gradients is kept.
size_t FastNet::place(int64_t n, bool train, float* block, Buffers& at) const {
  Cutter cut(block);
  if (side_by_side_ && !train) return place_side(n, cut, at);
  const auto place_norm = [&](int64_t width, Buffers::NormAt& norm) {
    for (float** part : {&norm.mean, &norm.inverse, &norm.scale, &norm.plain, &norm.along})
      *part = cut.floats(width);
  };
  int64_t y = 0, packed = 0, weight_grad = 0, lanes = 0, panels = 0, winners = 0;
  for (size_t i = 0; i < convs_.size(); ++i) {
    const auto& s = convs_[i].shape;
    at.convs[i].input =
        i == 0 && reads_sample_directly() ? nullptr : cut.floats(n * s.input_size());
    if (train) at.convs[i].winner = cut.ints(n * s.pooled_size());
    if (train && i > 0) at.convs[i].grad = cut.floats(n * s.input_grad_size());
    if (convs_[i].norm) {
      at.convs[i].y = cut.floats(n * s.output_size());
      place_norm(s.out_lanes(), at.convs[i].norm);
    }
    if (at.training && convs_[i].dropout > 0)
      at.convs[i].mask = cut.floats(n * s.out * s.pooled_h * s.pooled_w);
    winners = std::max(winners, convs_[i].group * s.pooled_size());
    y = std::max(y, convs_[i].group * s.output_size());
    packed =
        std::max({packed, s.depth() * s.out_lanes(), s.kernel * s.kernel * s.out * s.in_lanes()});
    weight_grad = std::max(weight_grad, s.depth() * s.out_lanes());
    lanes = std::max(lanes, s.out_lanes());
  }
  for (size_t i = 0; i < linears_.size(); ++i) {
    at.linear_out[i] = cut.floats(n * linears_[i].out);
    if (train && i > 0) at.linear_grad[i] = cut.floats(n * linears_[i].in);
    if (linears_[i].norm) {
      at.linears[i].unit = cut.floats(n * linears_[i].out);
      place_norm(linears_[i].out, at.linears[i].norm);
    }
    if (at.training && linears_[i].dropout > 0)
      at.linears[i].mask = cut.floats(n * linears_[i].out);
    panels = std::max(panels, n * fast::lanes_of(linears_[i].in));
  }
  if (train) at.panels = cut.floats(panels);
  if (convs_.empty()) return cut.used();

  const auto& last = convs_.back().shape;
  at.image = cut.floats(n * last.pooled_h * last.pooled_w * last.out);
  at.flat = cut.floats(n * linears_[0].in);
  at.y = cut.floats(y), at.packed = cut.floats(packed), at.bias = cut.floats(lanes);
  if (train) {
    at.linear_grad[0] = cut.floats(n * linears_[0].in);
    at.image_grad = cut.floats(n * last.pooled_size());
    at.weight_grad = cut.floats(weight_grad);
  } else {
    int32_t* shared = cut.ints(winners);
    for (size_t i = 0; i < convs_.size(); ++i) at.convs[i].winner = shared;
  }
  return cut.used();
}

FastNet::Buffers FastNet::buffers_for(int64_t n, bool train, const Training* training) const {
  if (running_ > 0 && training == nullptr)
    throw std::invalid_argument("FastNet: a network with batch norms can only be trained");
  Buffers at{};
  at.training = training;
  auto& arena = Arena::of_thread();
  arena.reserve(place(n, train, nullptr, at));
  place(n, train, arena.data(), at);
  at.train = train;
  return at;
}

void FastNet::forward_conv(size_t layer, const float* w, const float* x, int64_t n,
                           const Buffers& at) const {
  const auto& conv = convs_[layer];
  const auto& s = conv.shape;
  const bool last = layer + 1 == convs_.size();
  kernels_.pack_forward(s, w + conv.weight, at.packed);
  std::fill_n(at.bias, s.out_lanes(), 0.0f);
  std::copy_n(w + conv.bias, s.out, at.bias);
  if (!last && convs_[layer + 1].shape.border > 0)
    std::fill_n(at.convs[layer + 1].input, n * convs_[layer + 1].shape.input_size(), 0.0f);
  const float* input = conv_input(layer, x, at);
  for (int64_t i = 0; i < n; i += conv.group) {
    const int64_t images = std::min(conv.group, n - i);
    float* y = conv.norm ? at.convs[layer].y + i * s.output_size() : at.y;
    kernels_.conv_forward(s, images, input + i * s.input_size(), at.packed, y);
    if (conv.norm) continue;
    int32_t* winner = at.convs[layer].winner + (at.train ? i * s.pooled_size() : 0);
    kernels_.pool_forward(s, images, y, at.bias, pooled(layer, i, at), winner);
  }
  if (conv.norm) norm_conv(layer, w, n, at);
  if (at.training && conv.dropout > 0) {
    const int64_t size = s.out * s.pooled_h * s.pooled_w;
    draw_mask(n * size, conv.dropout, derive(at.training->key, kConvDropout + layer),
              at.convs[layer].mask);
    drop_conv(layer, n, pooled(layer, 0, at), at);
  }
}

Plane<float> FastNet::pooled(size_t layer, int64_t image, const Buffers& at) const {
  const auto& s = convs_[layer].shape;
  if (layer + 1 < convs_.size())
    return inner(at.convs[layer + 1].input, convs_[layer + 1].shape, s.out, image);
  const int64_t size = s.pooled_h * s.pooled_w * s.out;
  return {at.image + image * size, s.out, s.pooled_w * s.out, size};
}

void FastNet::flatten(int64_t n, const Buffers& at) const {
  const auto& s = convs_.back().shape;
  const int64_t pixels = s.pooled_h * s.pooled_w, size = pixels * s.out;
  for (int64_t i = 0; i < n; ++i)
    kernels_.transpose(pixels, s.out, at.image + i * size, s.out, at.flat + i * size, pixels);
}

void FastNet::unflatten(int64_t n, const Buffers& at) const {
  const auto& s = convs_.back().shape;
  const int64_t pixels = s.pooled_h * s.pooled_w;
  std::fill_n(at.image_grad, s.out == s.out_lanes() ? 0 : n * s.pooled_size(), 0.0f);
  for (int64_t i = 0; i < n; ++i)
    kernels_.transpose(s.out, pixels, at.linear_grad[0] + i * s.out * pixels, pixels,
                       at.image_grad + i * s.pooled_size(), s.out_lanes());
}

Plane<float> FastNet::above(size_t layer, int64_t image, const Buffers& at) const {
  const auto& s = convs_[layer].shape;
  if (layer + 1 < convs_.size()) {
    float* grad = at.convs[layer + 1].grad;
    return inner(grad, convs_[layer + 1].shape, s.out_lanes(), image);
  }
  return {at.image_grad + image * s.pooled_size(), s.out_lanes(), s.pooled_w * s.out_lanes(),
          s.pooled_size()};
}

void FastNet::side_convs(const float* w, const float* x, int64_t n, const Buffers& at) const {
  const int64_t side = kernels_.side, features = linears_[0].in;
  const auto& first = convs_[0].shape;
  const int64_t height = first.height - 2 * first.border, width = first.width - 2 * first.border;
  // Borders are never written to but here. Lanes without a sample hold 0 or another one's numbers.
  for (size_t i = 0; i < convs_.size(); ++i)
    std::fill_n(at.convs[i].side, convs_[i].shape.input_size() * side, 0.0f);
  for (int64_t i = 0; i < n; i += side) {
    const int64_t samples = std::min(side, n - i);
    const auto input = side_inner(at.convs[0].side, first, side);
    for (int64_t line = 0; line < first.in * height; ++line)
      kernels_.transpose(samples, width, x + i * sample_size_ + line * width, sample_size_,
                         input.first + line / height * input.image + line % height * input.row,
                         side);
    for (size_t j = 0; j < convs_.size(); ++j) {
      const auto& s = convs_[j].shape;
      const int64_t row = s.pooled_w * side;
      const auto out = j + 1 < convs_.size()
                           ? side_inner(at.convs[j + 1].side, convs_[j + 1].shape, side)
                           : Plane<float>{at.side, side, row, s.pooled_h * row};
      kernels_.side_conv(s, at.convs[j].side, w + convs_[j].weight, w + convs_[j].bias, out);
    }
    kernels_.transpose(features, samples, at.side, side, at.flat + i * features, features);
  }
}

const float* FastNet::forward_convs(const float* w, const float* x, int64_t n,
                                    const Buffers& at) const {
  if (convs_.empty()) return x;
  if (side_by_side_ && !at.train) {
    side_convs(w, x, n, at);
    return at.flat;
  }
  if (!reads_sample_directly()) place_sample(convs_[0].shape, n, x, at.convs[0].input);
  for (size_t i = 0; i < convs_.size(); ++i) forward_conv(i, w, x, n, at);
  flatten(n, at);
  return at.flat;
}

void FastNet::forward(const float* w, const float* x, int64_t n, const Buffers& at) const {
  const float* input = forward_convs(w, x, n, at);
  for (size_t i = 0; i < linears_.size(); ++i) {
    const auto& l = linears_[i];
    kernels_.linear_forward(n, l.in, l.out, input, w + l.weight, w + l.bias, l.relu && !l.norm,
                            at.linear_out[i]);
    if (at.training) finish_linear(i, w, n, at);
    input = at.linear_out[i];
  }
}

// The logits have been replaced by their gradient; so is every activation on the way back.
void FastNet::backward_linears(const float* w, const float* x, int64_t n, const Buffers& at,
                               float* grad) const {
  const float* out_grad = at.linear_out[linears_.size() - 1];
  for (size_t i = linears_.size(); i-- > 0;) {
    const auto& l = linears_[i];
    const float* input = i > 0 ? at.linear_out[i - 1] : convs_.empty() ? x : at.flat;
    kernels_.linear_weight_grad(n, l.in, l.out, input, out_grad, at.panels, grad + l.weight,
                                grad + l.bias);
    if (i == 0 && convs_.empty()) return;
    kernels_.linear_input_grad(n, l.in, l.out, out_grad, w + l.weight, at.linear_grad[i]);
    if (i > 0 && linears_[i - 1].relu)
      kernels_.relu_backward(n * l.in, at.linear_out[i - 1], at.linear_grad[i]);
    if (i > 0 && at.training) finish_linear_back(i - 1, n, at, at.linear_grad[i], grad);
    out_grad = at.linear_grad[i];
  }
}

void FastNet::backward_conv(size_t layer, const float* w, const float* x, int64_t n,
                            const Buffers& at, float* grad) const {
  const auto& conv = convs_[layer];
  const auto& s = conv.shape;
  const float* input = conv_input(layer, x, at);
  if (at.training && conv.dropout > 0) drop_conv(layer, n, above(layer, 0, at), at);
  if (conv.norm) norm_conv_back(layer, n, at, grad);
  std::fill_n(at.weight_grad, s.depth() * s.out_lanes(), 0.0f);
  std::fill_n(at.bias, s.out_lanes(), 0.0f);
  if (layer > 0) {
    kernels_.pack_backward(s, w + conv.weight, at.packed);
    std::fill_n(at.convs[layer].grad, n * s.input_grad_size(), 0.0f);
  }
  for (int64_t i = 0; i < n; i += conv.group) {
    const int64_t images = std::min(conv.group, n - i);
    kernels_.pool_backward(s, images, reading(above(layer, i, at)),
                           at.convs[layer].winner + i * s.pooled_size(), at.y, at.bias);
    if (conv.norm) {
      const auto& norm = at.convs[layer].norm;
      kernels_.batch_input_grad(images * s.out_h * s.out_w, s.out_lanes(),
                                at.convs[layer].y + i * s.output_size(), {norm.mean, norm.scale},
                                norm.plain, norm.along, at.y);
    }
    kernels_.conv_weight_grad(s, images, input + i * s.input_size(), at.y, at.weight_grad);
    if (layer > 0)
      kernels_.conv_input_grad(s, images, at.y, at.packed,
                               at.convs[layer].grad + i * s.input_grad_size());
  }
  kernels_.unpack_grad(s, at.weight_grad, grad + conv.weight);
  if (!conv.norm) std::copy_n(at.bias, s.out, grad + conv.bias);
}

bool FastNet::accepts(const Tensor& x, const Tensor& y) const {
  if (x.dim() < 1 || x.size(0) < 1 || x.scalar_type() != at::kFloat) return false;
  const int64_t n = x.size(0);
  return x.numel() == n * sample_size_ && y.scalar_type() == at::kLong && y.dim() == 1 &&
         y.size(0) == n;
}

bool FastNet::value_and_grad(const float* w, const Tensor& x, const Tensor& y, Loss loss,
                             float* grad, double& value, const Training* training) const {
  if (!accepts(x, y)) return false;
  const int64_t n = x.size(0);
  const Tensor samples = x.contiguous(), labels = y.contiguous();
  const float* data = samples.data_ptr<float>();

  const auto at = buffers_for(n, true, training);
  forward(w, data, n, at);
  value = fast::loss_and_grad(loss, n, classes(), labels.data_ptr<int64_t>(),
                              at.linear_out[linears_.size() - 1]);
  backward(w, data, n, at, grad);
  return true;
}

void FastNet::backward(const float* w, const float* x, int64_t n, const Buffers& at,
                       float* grad) const {
  backward_linears(w, x, n, at, grad);
  if (convs_.empty()) return;
  unflatten(n, at);
  for (size_t i = convs_.size(); i-- > 0;) backward_conv(i, w, x, n, at, grad);
}

template <class Some>
void FastNet::in_parts(const Tensor& x, const Some& some) const {
  if (x.dim() < 1 || x.scalar_type() != at::kFloat || x.numel() != x.size(0) * sample_size_)
    throw std::invalid_argument("FastNet: samples must be float32 and of the network's size");
  const Tensor samples = x.contiguous();
  for (int64_t i = 0, n = x.size(0); i < n; i += kSamplesAtATime) {
    const int64_t size = std::min(kSamplesAtATime, n - i);
    some(i, samples.data_ptr<float>() + i * sample_size_, size, buffers_for(size, false));
  }
}

void FastNet::predict(const float* w, const Tensor& x, float* logits) const {
  in_parts(x, [&](int64_t first, const float* samples, int64_t n, const Buffers& at) {
    forward(w, samples, n, at);
    std::copy_n(at.linear_out[linears_.size() - 1], n * classes(), logits + first * classes());
  });
}

void FastNet::maps(const float* w, const Tensor& x, float* out) const {
  const int64_t inputs = linears_.front().in;
  in_parts(x, [&](int64_t first, const float* samples, int64_t n, const Buffers& at) {
    std::copy_n(forward_convs(w, samples, n, at), n * inputs, out + first * inputs);
  });
}

}  // namespace tessera

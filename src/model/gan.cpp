#include "model/gan.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/key.hpp"
#include "model/sequential.hpp"
#include "model/vit.hpp"

namespace tessera {
namespace {

constexpr int64_t kKernel = 4, kStride = 2, kPad = 1;  // halves a picture's sides
constexpr double kLeak = 0.2;
constexpr uint64_t kDiscriminatorStream = 1;

int64_t halved(int64_t side) { return (side + 2 * kPad - kKernel) / kStride + 1; }

Fill normal_of(double variance) { return {Fill::Kind::kNormal, std::sqrt(variance)}; }

Tensor strided(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return at::conv2d(x, weight, bias, {kStride, kStride}, {kPad, kPad});
}

/// The patches that a convolution reads: [n, channels · 16, places].
Tensor patches(const Tensor& x) {
  return at::im2col(x, {kKernel, kKernel}, {1, 1}, {kPad, kPad}, {kStride, kStride});
}

/// By what the leaky ReLU passes a slope on at `x`.
Tensor leaky_slope(const Tensor& x) { return (x > 0).to(x.scalar_type()) * (1 - kLeak) + kLeak; }

Tensor moved(const Tensor& pixels) { return pixels * 2 - 1; }

}  // namespace

Generator::Generator(const GanSpec& spec) : spec_(spec) {
  std::vector<Slice> slices{{"class.code", {spec.classes, spec.code}}};
  fills_ = {normal_of(1)};
  int64_t in = spec.noise + spec.code;
  const auto linear = [&](const std::string& name, int64_t out, double gain) {
    slices.push_back({name + ".weight", {out, in}});
    slices.push_back({name + ".bias", {out}});
    fills_.push_back(normal_of(gain / static_cast<double>(in)));
    fills_.push_back({});
    in = out;
  };
  for (size_t i = 0; i < spec.hidden.size(); ++i)
    linear("hidden" + std::to_string(i + 1), spec.hidden[i], 2);
  linear("out", spec.pixels(), 1);
  layout_ = Layout(std::move(slices));
}

Tensor Generator::forward(const Tensor& w, const Tensor& z, const Tensor& y) const {
  const auto parts = layout_.views(w);
  auto x = at::cat({z.to(w.scalar_type()), at::embedding(parts[0], y)}, 1);
  for (size_t i = 1; i < parts.size(); i += 2) {
    x = at::linear(x, parts[i], parts[i + 1]);
    if (i + 2 < parts.size()) x = at::relu(x);
  }
  return at::sigmoid(x).view({z.size(0), spec_.sample[0], spec_.sample[1], spec_.sample[2]});
}

Discriminator::Discriminator(const GanSpec& spec) : spec_(spec) {
  if (spec.sample.size() != 3 || spec.channels.size() != 2)
    throw std::invalid_argument("a discriminator takes pictures, by two convolutions");
  const int64_t c1 = spec.channels[0], c2 = spec.channels[1], area = kKernel * kKernel;
  if (std::min(spec.sample[1], spec.sample[2]) < 4)
    throw std::invalid_argument("a discriminator's pictures are at least 4 pixels wide and high");
  const int64_t width = c2 * halved(halved(spec.sample[1])) * halved(halved(spec.sample[2]));
  layout_ = Layout({{"conv1.weight", {c1, spec.sample[0], kKernel, kKernel}},
                    {"conv1.bias", {c1}},
                    {"conv2.weight", {c2, c1, kKernel, kKernel}},
                    {"conv2.bias", {c2}},
                    {"class.code", {spec.classes, spec.code}},
                    {"projection.weight", {width, spec.code}},
                    {"linear.weight", {width}},
                    {"linear.bias", {1}}});
  // Features of variance about 1; the two terms of the score begin alike.
  const auto in = [](int64_t n) { return 1 / static_cast<double>(n); };
  fills_ = {normal_of(2 * in(spec.sample[0] * area)),
            {},
            normal_of(2 * in(c1 * area)),
            {},
            normal_of(1),
            normal_of(in(width * spec.code)),
            normal_of(in(width)),
            {}};
}

Tensor Discriminator::forward(const Tensor& w, const Tensor& x, const Tensor& y) const {
  const auto p = layout_.views(w);
  auto h = at::leaky_relu(strided(moved(x), p[0], p[1]), kLeak);
  h = at::leaky_relu(strided(h, p[2], p[3]), kLeak).flatten(1);
  const auto direction = at::linear(at::embedding(p[4], y), p[5]) + p[6];
  return (h * direction).sum(1) + p[7];
}

Discriminator::Trace Discriminator::trace(const Tensor& w, const Tensor& x, const Tensor& y) const {
  const at::NoGradGuard no_grad;
  const auto p = layout_.views(w);
  Trace out{moved(x), y};
  out.one = strided(out.x, p[0], p[1]);
  out.two = strided(at::leaky_relu(out.one, kLeak), p[2], p[3]);
  const auto direction = at::linear(at::embedding(p[4], y), p[5]) + p[6];
  out.scores = (at::leaky_relu(out.two, kLeak).flatten(1) * direction).sum(1) + p[7];
  return out;
}

// Backward by hand, but for the sums over samples.
Tensor Discriminator::sample_gradients(const Tensor& w, const Trace& trace,
                                       const Tensor& slopes) const {
  const at::NoGradGuard no_grad;
  const auto p = layout_.views(w);
  const int64_t n = trace.y.size(0);
  const auto first = at::leaky_relu(trace.one, kLeak);
  const auto h = at::leaky_relu(trace.two, kLeak).flatten(1) * slopes.unsqueeze(1);
  const auto code = at::embedding(p[4], trace.y);
  const auto direction = (at::linear(code, p[5]) + p[6]) * slopes.unsqueeze(1);
  const auto into_two = direction.view_as(trace.two) * leaky_slope(trace.two);
  const auto into_one = at::conv_transpose2d(into_two, p[2], {}, {kStride, kStride}, {kPad, kPad},
                                             {(trace.one.size(2) + 2 * kPad - kKernel) % kStride,
                                              (trace.one.size(3) + 2 * kPad - kKernel) % kStride}) *
                        leaky_slope(trace.one);
  const auto filters = [&](const Tensor& flow, const Tensor& read) {
    return at::bmm(flow.flatten(2), patches(read).transpose(1, 2)).flatten(1);
  };
  auto codes = at::zeros({n, spec_.classes, spec_.code}, w.options());
  codes.index_put_({at::arange(n), trace.y}, h.mm(p[5]));
  return at::cat({filters(into_one, trace.x), into_one.sum({2, 3}), filters(into_two, first),
                  into_two.sum({2, 3}), codes.flatten(1),
                  (h.unsqueeze(2) * code.unsqueeze(1)).flatten(1), h, slopes.unsqueeze(1)},
                 1);
}

std::vector<int64_t> picture_shape(const Model& model) {
  std::vector<int64_t> out;
  if (const auto* net = dynamic_cast<const Sequential*>(&model)) out = net->spec().sample;
  if (const auto* vit = dynamic_cast<const Vit*>(&model))
    out = {vit->spec().channels, vit->spec().height, vit->spec().width};
  return out.size() == 3 ? out : std::vector<int64_t>{};
}

GanWeights Gan::init(uint64_t key) const {
  return {generator.init(key), discriminator.init(derive(key, kDiscriminatorStream))};
}

Tensor Gan::draw(int64_t n, uint64_t key) const {
  auto z = at::empty({n, spec.noise}, at::kFloat);
  Rng rng(key);
  auto* at = z.data_ptr<float>();
  for (int64_t i = 0; i < z.numel(); ++i) at[i] = static_cast<float>(rng.normal());
  return z;
}

Tensor Gan::pictures(const Tensor& generator_weights, const Tensor& y, uint64_t key) const {
  const at::NoGradGuard no_grad;
  return generator.forward(generator_weights, draw(y.size(0), key), y);
}

Tensor discriminator_loss(const Tensor& real, const Tensor& made) {
  return at::softplus(-real).mean() + at::softplus(made).mean();
}

Tensor generator_loss(const Tensor& made) { return at::softplus(-made).mean(); }

}  // namespace tessera

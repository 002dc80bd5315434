#include "train/gan_training.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/key.hpp"
#include "train/epochs.hpp"
#include "train/optimizer.hpp"

namespace tessera {
namespace {

constexpr double kBeta1 = 0.5;
// Of a step's key.
constexpr uint64_t kPartnerStream = 1, kNoiseStream = 2, kGeneratorStream = 3;
// Of the key of made pictures.
constexpr uint64_t kClassStream = 1, kPictureStream = 2, kOrderStream = 3;

Optimizer adam(const GanTraining& options) {
  TrainOptions plain;
  plain.optimizer = "adam";
  return {plain, options.lr, kBeta1};
}

/// Training samples in the order of their rows, gathered without a note in the log of batches.
Examples rows_of(const ClientData& data, int64_t begin, int64_t end) {
  const auto at = at::tensor(at::ArrayRef<int64_t>(data.train.data() + begin, end - begin));
  return {data.pool->x.index_select(0, at), data.pool->y.index_select(0, at)};
}

/// Each picture with its partner is one sample: all that depends on that picture is cut with it.
double noisy_gradient(const Gan& gan, const Tensor& w, const Examples& real, const Tensor& made,
                      const GanTraining& options, uint64_t key, Tensor& grad) {
  const auto& net = gan.discriminator;
  const auto seen = net.trace(w, real.x, real.y), taken = net.trace(w, made, real.y);
  const auto rows = net.sample_gradients(w, seen, -at::sigmoid(-seen.scores)) +
                    net.sample_gradients(w, taken, at::sigmoid(taken.scores));
  const auto keep = (options.clip / rows.norm(2, 1).clamp_min(1e-12)).clamp_max(1);
  grad.copy_(keep.unsqueeze(0).mm(rows).squeeze(0));
  Rng rng(key);
  auto* at = grad.data_ptr<float>();
  for (int64_t i = 0; i < grad.numel(); ++i)
    at[i] += static_cast<float>(options.noise_std * options.clip * rng.normal());
  grad.div_(static_cast<double>(real.size()));
  return discriminator_loss(seen.scores, taken.scores).item<double>();
}

}  // namespace

Tensor PixelRange::to_pixels(const Tensor& inputs) const { return (inputs - low) / (high - low); }
Tensor PixelRange::to_inputs(const Tensor& pixels) const { return pixels * (high - low) + low; }

PixelRange pixel_range(const ClientData& data) {
  constexpr int64_t kChunk = 256;
  PixelRange out{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  const int64_t n = data.train_size();
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const auto [low, high] = at::aminmax(rows_of(data, begin, std::min(begin + kChunk, n)).x);
    out.low = std::min(out.low, low.item<double>());
    out.high = std::max(out.high, high.item<double>());
  }
  return out.low < out.high ? out : PixelRange{};
}

double discriminator_gradient(const Gan& gan, const Tensor& w, const Examples& real,
                              const Tensor& made, const GanTraining& options, uint64_t key,
                              Tensor& grad) {
  if (options.noise_std > 0) return noisy_gradient(gan, w, real, made, options, key, grad);
  const auto here = w.detach().requires_grad_(true);
  const auto& net = gan.discriminator;
  // One pass over both: convolutions of twice the batch cost less than two of it.
  const auto scores = net.forward(here, at::cat({real.x, made}), at::cat({real.y, real.y}));
  const int64_t n = real.size();
  const auto loss = discriminator_loss(scores.narrow(0, 0, n), scores.narrow(0, n, n));
  grad.copy_(torch::autograd::grad({loss}, {here})[0]);
  return loss.item<double>();
}

double generator_gradient(const Gan& gan, const GanWeights& at, const Tensor& z, const Tensor& y,
                          Tensor& grad) {
  const auto here = at.generator.detach().requires_grad_(true);
  const auto made = gan.generator.forward(here, z, y);
  const auto loss = generator_loss(gan.discriminator.forward(at.discriminator, made, y));
  grad.copy_(torch::autograd::grad({loss}, {here})[0]);
  return loss.item<double>();
}

GanTrained train_gan(const Gan& gan, const GanWeights& start, const Site& pairs,
                     const GanTraining& options) {
  GanTrained out{{start.generator.clone(), start.discriminator.clone()}};
  auto& [generator, discriminator] = out.weights;
  EpochStream stream(pairs, Part::kTrain, options.batch);
  const auto range = pixel_range(pairs.data);
  auto on_generator = adam(options), on_discriminator = adam(options);
  auto slope_g = at::empty_like(generator), slope_d = at::empty_like(discriminator);
  for (const int64_t steps = options.epochs * stream.per_epoch(); out.steps < steps; ++out.steps) {
    auto [real, key] = stream.next();
    real.x = range.to_pixels(real.x);
    const auto made = gan.pictures(generator, real.y, derive(key, kPartnerStream));
    out.discriminator_loss += discriminator_gradient(gan, discriminator, real, made, options,
                                                     derive(key, kNoiseStream), slope_d);
    on_discriminator.step(discriminator, slope_d);
    const auto z = gan.draw(real.size(), derive(key, kGeneratorStream));
    out.generator_loss += generator_gradient(gan, out.weights, z, real.y, slope_g);
    on_generator.step(generator, slope_g);
  }
  const double steps = static_cast<double>(std::max<int64_t>(out.steps, 1));
  out.discriminator_loss /= steps, out.generator_loss /= steps;
  return out;
}

std::vector<double> inverse_shares(std::span<const int64_t> counts, bool own_only) {
  std::vector<double> out;
  double sum = 0;
  for (const int64_t count : counts) {
    out.push_back(own_only && count == 0 ? 0 : 1 / (static_cast<double>(count) + 1));
    sum += out.back();
  }
  for (double& share : out) share /= std::max(sum, 1e-300);
  return out;
}

Tensor draw_classes(std::span<const double> shares, int64_t n, uint64_t key) {
  auto out = at::empty({n}, at::kLong);
  Rng rng(key);
  for (int64_t i = 0; i < n; ++i) {
    double left = rng.uniform();
    int64_t at = 0, last = 0;
    for (; at < std::ssize(shares); ++at) {
      const double share = shares[static_cast<size_t>(at)];
      if (share > 0) last = at;
      if ((left -= share) < 0) break;
    }
    out.data_ptr<int64_t>()[i] = last;  // rounding may leave a little beyond the last share
  }
  return out;
}

ClientData GanUse::apply(const Gan& gan, const Tensor& generator, const ClientData& data,
                         uint64_t key) const {
  const int64_t n = data.train_size();
  const auto own = rows_of(data, 0, n);
  const bool replaces = use == "replace";
  const auto wanted = static_cast<int64_t>(std::llround(ratio * static_cast<double>(n)));
  const auto y =
      replaces ? own.y
               : draw_classes(inverse_shares(data.class_counts(Part::kTrain), classes == "own"),
                              wanted, derive(key, kClassStream));
  const auto made =
      pixel_range(data).to_inputs(gan.pictures(generator, y, derive(key, kPictureStream)));
  auto pool = std::make_shared<Pool>();
  pool->x = replaces ? made : at::cat({own.x, made});
  pool->y = replaces ? y : at::cat({own.y, y});
  pool->classes = data.classes();
  // What is virtual already stays so; what is not may still become it.
  pool->derived = data.pool->derived;
  pool->pixel_mean = data.pool->pixel_mean, pool->pixel_std = data.pool->pixel_std;
  if (const auto& shares = data.pool->shares; shares.defined() && !replaces)
    pool->shares = at::cat({shares.index_select(0, at::tensor(data.train, at::kLong)),
                            at::one_hot(y, data.classes()).to(shares.scalar_type())});
  ClientData out;
  out.name = data.name;
  out.train = Rng(derive(key, kOrderStream)).permutation(pool->y.size(0));
  out.pool = std::move(pool);
  return out;
}

}  // namespace tessera

#include "attack/extraction.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "base/key.hpp"
#include "train/optimizer.hpp"

namespace tessera {
namespace {

constexpr int64_t kChunk = 256;
constexpr uint64_t kMadeStream = 1, kNoiseStream = 2;

/// Eigenvalues that rounding made negative count as 0.
Tensor root(const Tensor& covariance) {
  const auto [values, vectors] = at::linalg_eigh(covariance);
  return (vectors * values.clamp_min(0).sqrt()).mm(vectors.t());
}

Tensor uniform_noise(at::IntArrayRef shape, uint64_t key) {
  auto out = at::empty(shape, at::kFloat);
  Rng rng(key);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data_ptr<float>()[i] = static_cast<float>(rng.uniform());
  return out;
}

}  // namespace

FeatureStatistics statistics_of(const Tensor& features) {
  if (features.size(0) < 2)
    throw std::invalid_argument("feature statistics need at least two pictures");
  const auto rows = features.to(at::kDouble);
  const auto mean = rows.mean(0), centred = rows - mean;
  return {mean, centred.t().mm(centred) / static_cast<double>(rows.size(0) - 1)};
}

FeatureStatistics feature_statistics(const InvertedModel& evaluator, const Tensor& pictures) {
  const at::NoGradGuard no_grad;
  std::vector<Tensor> seen;
  for (const auto& some : pictures.split(kChunk))
    seen.push_back(
        evaluator.model.forward(evaluator.at, evaluator.scale.to_inputs(some), {}).features);
  return statistics_of(at::cat(seen));
}

double frechet_distance(const FeatureStatistics& a, const FeatureStatistics& b) {
  const auto half = root(a.covariance);
  const auto between = half.mm(b.covariance).mm(half);
  // Symmetric but for rounding, which eigh would read from one triangle alone.
  const auto values = at::linalg_eigvalsh((between + between.t()) / 2);
  const auto spread =
      a.covariance.trace() + b.covariance.trace() - 2 * values.clamp_min(0).sqrt().sum();
  return ((a.mean - b.mean).square().sum() + spread).item<double>();
}

GanWeights extract_by_gan(const Gan& gan, const Examples& reconstructed, const GanTraining& options,
                          uint64_t key) {
  auto pool = std::make_shared<Pool>();
  pool->x = reconstructed.x.to(at::kFloat).contiguous(), pool->y = reconstructed.y;
  pool->classes = gan.spec.classes;
  ClientData pairs;
  pairs.pool = pool;
  pairs.train.resize(static_cast<size_t>(reconstructed.size()));
  std::iota(pairs.train.begin(), pairs.train.end(), 0);
  // Of a site only data and key count.
  const auto model = make_model("mlp100", {gan.spec.sample, gan.spec.classes});
  if (!model.ok()) throw std::invalid_argument(message(model.status()));
  return train_gan(gan, gan.init(key), {**model, pairs, 1, key}, options).weights;
}

GeneratorLeak generator_leak(const Gan& gan, const Tensor& generator,
                             const InvertedModel& evaluator, const Examples& victim,
                             const Examples& other, uint64_t key) {
  const int64_t n = std::min(victim.size(), other.size());
  const auto y = victim.y.narrow(0, 0, n);
  const auto made = gan.pictures(generator, y, derive(key, kMadeStream));
  const auto noise = uniform_noise(made.sizes(), derive(key, kNoiseStream));
  const auto of = [&](const Tensor& pictures) { return feature_statistics(evaluator, pictures); };
  const auto theirs = of(victim.x.narrow(0, 0, n)), others = of(other.x.narrow(0, 0, n)),
             shown = of(made);
  GeneratorLeak out{.victim = frechet_distance(shown, theirs),
                    .other = frechet_distance(shown, others),
                    .apart = frechet_distance(theirs, others),
                    .noise = frechet_distance(of(noise), theirs)};
  const auto right =
      (evaluator.model.predict(evaluator.at, evaluator.scale.to_inputs(made)).argmax(1) == y)
          .to(at::kDouble);
  for (int64_t label = 0; label < gan.spec.classes; ++label)
    out.accuracy.push_back(right.masked_select(y == label).mean().item<double>());
  out.mean_accuracy = right.mean().item<double>();
  return out;
}

Tensor invert_by_generator(const InvertedModel& target, const Gan& gan, const Tensor& generator,
                           int64_t label, const GanInversionOptions& options, uint64_t key) {
  TrainOptions adam;
  adam.optimizer = "adam";
  Optimizer optimizer(adam, options.lr, 0.5);
  auto out = generator.clone();
  const auto y = at::full({options.batch}, label, at::kLong);
  for (int64_t step = 0; step < options.steps; ++step) {
    const auto here = out.detach().requires_grad_(true);
    const auto made = gan.generator.forward(here, gan.draw(options.batch, derive(key, step)), y);
    const auto logits = target.model.forward(target.at, target.scale.to_inputs(made), {}).logits;
    const auto loss = at::cross_entropy_loss(logits, y) + options.tv * total_variation(made);
    auto slope = torch::autograd::grad({loss}, {here})[0];
    optimizer.step(out, slope);
  }
  return out;
}

Examples mislabelled(const Gan& gan, const Tensor& generator, int64_t label, int64_t wrong,
                     int64_t n, uint64_t key) {
  return {gan.pictures(generator, at::full({n}, label, at::kLong), key),
          at::full({n}, wrong, at::kLong)};
}

}  // namespace tessera

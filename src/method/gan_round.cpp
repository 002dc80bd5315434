#include "method/gan_round.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/key.hpp"
#include "tensor/linear_head.hpp"
#include "train/virtual_steps.hpp"

namespace tessera {
namespace {

constexpr uint64_t kNetworkStream = 21, kShownStream = 22;  // of the initial model's key
constexpr uint64_t kLearnStream = 21, kMadeStream = 22;     // of a round's key
constexpr int64_t kShownClasses = 20, kShownEach = 8, kLeastSide = 4;

}  // namespace

Status GanRound::check(const std::string& method, const Model& model) {
  const auto sample = picture_shape(model);
  if (!linear_head(model.layout()) || sample.empty() || std::min(sample[1], sample[2]) < kLeastSide)
    return fail(Error::kInvalid,
                "{} trains a generator of pictures: it needs samples of [channels, height, width], "
                "sides of 4 and more, and a network of the table (`tessera models`)",
                method);
  return ok();
}

Gan GanRound::networks(const Model& model) {
  return Gan({.sample = picture_shape(model), .classes = linear_head(model.layout())->classes});
}

GanWeights GanRound::init(const Model& model, uint64_t key) {
  return networks(model).init(derive(key, Purpose::kInit, kNetworkStream));
}

GanRound::Pairs GanRound::pairs(const Local& local, const Weights& at, const TrainOptions& train) {
  const std::shared_ptr<const ClientData> own(std::shared_ptr<void>(), &local.data);  // borrowed
  if (!train.transform) return {own, own};
  // Where every step transforms its own batch, those of the GAN are made apart, once a round.
  const bool steps = train.transform->when == VirtualTraining::When::kStep;
  const Site site{local.model, local.data, local.round,
                  steps ? derive(local.key, kLearnStream) : local.key};
  auto made = virtual_pairs(at, site, Part::kTrain, *train.transform);
  auto named = std::make_shared<ClientData>(*made);
  auto pool = std::make_shared<Pool>(*made->pool);
  pool->shares.reset();
  named->pool = std::move(pool);
  return {steps ? own : std::move(made), std::move(named)};
}

std::shared_ptr<const ClientData> GanRound::training_data(
    const Local& local, const std::shared_ptr<const ClientData>& own,
    const Tensor& generator) const {
  if (!use.due(local.round, local.setup.rounds)) return own;
  return std::make_shared<const ClientData>(
      use.apply(networks(local.model), generator, *own, derive(local.key, kMadeStream)));
}

GanWeights GanRound::learned(const Local& local, const ClientData& real,
                             const GanWeights& at) const {
  const Site pairs{local.model, real, local.round, derive(local.key, kLearnStream)};
  return train_gan(networks(local.model), at, pairs, training).weights;
}

Exhibit GanRound::exhibit(const Model& model, const Tensor& generator, uint64_t key) {
  const auto gan = networks(model);
  const int64_t rows = std::min(gan.spec.classes, kShownClasses);
  const auto y = at::arange(rows, at::kLong).repeat_interleave(kShownEach);
  const auto made = gan.pictures(generator, y, derive(key, Purpose::kInit, kShownStream));
  const auto& sample = gan.spec.sample;
  Exhibit out{"generated", "Pictures of the common generator", Exhibit::Kind::kImages,
              made.mean(1).view({rows, kShownEach, sample[1], sample[2]})};
  for (int64_t row = 0; row < rows; ++row) out.rows.push_back(fmt::format("class {}", row));
  for (int64_t i = 1; i <= kShownEach; ++i) out.columns.push_back(std::to_string(i));
  return out;
}

}  // namespace tessera

#include "method/gan_round.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/key.hpp"
#include "tensor/linear_head.hpp"

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

std::shared_ptr<const ClientData> GanRound::training_data(const Local& local,
                                                          const Tensor& generator) const {
  if (!use.due(local.round, local.setup.rounds))
    return {std::shared_ptr<void>(), &local.data};  // borrowed
  return std::make_shared<const ClientData>(
      use.apply(networks(local.model), generator, local.data, derive(local.key, kMadeStream)));
}

GanWeights GanRound::learned(const Local& local, const GanWeights& at) const {
  const Site pairs{local.model, local.data, local.round, derive(local.key, kLearnStream)};
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

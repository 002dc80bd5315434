#include "train/virtual_steps.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "base/key.hpp"
#include "base/text.hpp"

namespace tessera {
namespace {

/// Of a site's key; the numbers of epochs never get there.
constexpr uint64_t kVirtualStream = 0x7472'616e'7300'0000;

/// Groups of nearly equal size, of at least `least` samples where there are as many.
std::vector<std::pair<int64_t, int64_t>> groups_of(int64_t n, int64_t least) {
  const int64_t groups = std::max<int64_t>(1, n / least);
  std::vector<std::pair<int64_t, int64_t>> out;
  for (int64_t i = 0; i < groups; ++i) out.emplace_back(i * n / groups, (i + 1) * n / groups);
  return out;
}

uint64_t key_of(uint64_t key, const std::string& name) {
  for (const char c : name) key = derive(key, static_cast<uint8_t>(c));
  return key;
}

PixelScale pixels_of(const Pool& pool) { return {pool.pixel_mean, pool.pixel_std}; }

void check_virtual(const Site& site, Part part) {
  if (site.data.pool->pixel_mean.empty())
    throw std::invalid_argument(
        "guard 'transform' needs pictures whose pixels are known to be 0 to 1; use an image set "
        "(`tessera data list`) without data.scale = \"pixel\"");
  if (const int64_t n = site.data.size(part); n < TransformOptions::kLeastBatch)
    throw std::invalid_argument(
        fmt::format("guard 'transform' needs at least {} samples of a client, and this one has {}",
                    TransformOptions::kLeastBatch, n));
}

Virtual noted(Virtual made, TransformLog::Totals& sums) {
  ++sums.batches;
  sums.gradient_distance += made.gradient_distance, sums.pixel_distance += made.pixel_distance;
  sums.label_term += made.label_term;
  sums.worst_gradient_distance = std::max(sums.worst_gradient_distance, made.gradient_distance);
  return made;
}

ClientData virtual_rows(const Weights& at, const Site& site, Part part,
                        const VirtualTraining& training, uint64_t key, TransformLog::Totals& sums) {
  auto pool = std::make_shared<Pool>();
  uint64_t group = 0;
  const int64_t n = site.data.size(part);
  std::vector<Tensor> pictures, labels;
  for (const auto& [begin, end] : groups_of(n, training.options.batch)) {
    const auto made = noted(
        transformed(site.model, at, site.data.range(part, begin, end), pixels_of(*site.data.pool),
                    training.options, derive(key, kVirtualStream, group++)),
        sums);
    pictures.push_back(made.x), labels.push_back(made.y);
  }
  pool->x = at::cat(pictures), pool->shares = at::cat(labels);
  pool->y = pool->shares.argmax(1);
  pool->classes = site.data.classes(), pool->derived = true;
  ClientData out;
  out.name = site.data.name, out.pool = std::move(pool);
  out.train.resize(static_cast<size_t>(n));
  std::iota(out.train.begin(), out.train.end(), 0);
  return out;
}

}  // namespace

void TransformLog::note(uint64_t key, const Totals& sums) {
  const std::scoped_lock lock(mutex_);
  calls_[key] = sums;
}

std::optional<TransformLog::Totals> TransformLog::totals() const {
  const std::scoped_lock lock(mutex_);
  Totals out;
  for (const auto& [key, sums] : calls_) {
    out.batches += sums.batches;
    out.gradient_distance += sums.gradient_distance, out.pixel_distance += sums.pixel_distance;
    out.label_term += sums.label_term;
    out.worst_gradient_distance =
        std::max(out.worst_gradient_distance, sums.worst_gradient_distance);
  }
  if (out.batches == 0) return std::nullopt;
  const auto count = static_cast<double>(out.batches);
  out.gradient_distance /= count, out.pixel_distance /= count, out.label_term /= count;
  return out;
}

std::shared_ptr<const ClientData> TransformLog::once(const std::string& name,
                                                     const std::function<ClientData()>& make) {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = rows_.find(name); found != rows_.end()) return found->second;
  }
  // Long; who asks for the same at the same time gets the same numbers.
  auto made = std::make_shared<const ClientData>(make());
  const std::scoped_lock lock(mutex_);
  return rows_.emplace(name, std::move(made)).first->second;
}

std::shared_ptr<const ClientData> virtual_pairs(const Weights& at, const Site& site, Part part,
                                                const VirtualTraining& training) {
  check_virtual(site, part);
  TransformLog::Totals sums;
  const auto made_at = [&](const Weights& here, uint64_t key) {
    return virtual_rows(here, site, part, training, key, sums);
  };
  std::shared_ptr<const ClientData> out;
  if (training.when == VirtualTraining::When::kOnce) {
    const auto name =
        fmt::format("{}/{}/{}", site.data.name, static_cast<int>(part), site.data.size(part));
    out = training.log->once(name, [&] {
      return made_at(site.model.init(training.initial), key_of(training.initial, name));
    });
  } else {
    out = std::make_shared<const ClientData>(made_at(at, site.key));
  }
  if (sums.batches > 0) training.log->note(site.key, sums);
  return out;
}

VirtualSteps::VirtualSteps(const Weights& start, const Site& site, Part part,
                           const TrainOptions& options)
    : site_(site),
      part_(part),
      n_(site.data.size(part)),
      batch_(options.batch),
      training_(*options.transform) {
  check_virtual(site, part);
  if (training_.when == VirtualTraining::When::kStep) return;
  rows_ = virtual_pairs(start, site, part, training_);
  virtual_site_.emplace(Site{site.model, *rows_, site.round, site.key});
  virtual_stream_.emplace(*virtual_site_, Part::kTrain, options.batch);
}

VirtualSteps::~VirtualSteps() {
  if (sums_.batches > 0) training_.log->note(site_.key, sums_);
}

Examples VirtualSteps::virtual_batch(const Weights& at, Examples batch, uint64_t key) {
  if (batch.size() < TransformOptions::kLeastBatch)
    batch =
        site_.data.take(part_, Rng(derive(key, kVirtualStream)).sample(n_, std::min(batch_, n_)));
  std::vector<Tensor> pictures, labels;
  uint64_t group = 0;
  for (const auto& [begin, end] : groups_of(batch.size(), training_.options.batch)) {
    const Examples some{batch.x.slice(0, begin, end), batch.y.slice(0, begin, end)};
    const auto made = noted(transformed(site_.model, at, some, pixels_of(*site_.data.pool),
                                        training_.options, derive(key, kVirtualStream, ++group)),
                            sums_);
    pictures.push_back(made.x), labels.push_back(made.y);
  }
  return {at::cat(pictures), at::cat(labels)};
}

double VirtualSteps::gradient(EpochStream& stream, Weights& at, Tensor& g) {
  if (virtual_stream_) {
    const auto [batch, key] = virtual_stream_->next();
    return batch_gradient(site_.model, at, batch, Loss::kCrossEntropy, key, g);
  }
  auto [batch, key] = stream.next();
  const auto made = virtual_batch(at, std::move(batch), key);
  return batch_gradient(site_.model, at, made, Loss::kCrossEntropy, key, g);
}

}  // namespace tessera

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

std::shared_ptr<const VirtualRows> TransformLog::once(const std::string& name,
                                                      const std::function<VirtualRows()>& make) {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = rows_.find(name); found != rows_.end()) return found->second;
  }
  // Long; who asks for the same at the same time gets the same numbers.
  auto made = std::make_shared<const VirtualRows>(make());
  const std::scoped_lock lock(mutex_);
  return rows_.emplace(name, std::move(made)).first->second;
}

VirtualSteps::VirtualSteps(const Weights& start, const Site& site, Part part,
                           const TrainOptions& options)
    : site_(site),
      part_(part),
      n_(site.data.size(part)),
      batch_(options.batch),
      training_(*options.transform) {
  const auto& pool = *site.data.pool;
  if (pool.pixel_mean.empty())
    throw std::invalid_argument(
        "guard 'transform' needs pictures whose pixels are known to be 0 to 1; use an image set "
        "(`tessera data list`) without data.scale = \"pixel\"");
  if (n_ < TransformOptions::kLeastBatch)
    throw std::invalid_argument(
        fmt::format("guard 'transform' needs at least {} samples of a client, and this one has {}",
                    TransformOptions::kLeastBatch, n_));
  scale_ = {pool.pixel_mean, pool.pixel_std};
  using When = VirtualTraining::When;
  if (training_.when == When::kStep) return;
  if (training_.when == When::kOnce) {
    const auto name = fmt::format("{}/{}/{}", site.data.name, static_cast<int>(part), n_);
    rows_ = training_.log->once(name, [&] {
      return rows_at(site.model.init(training_.initial), key_of(training_.initial, name));
    });
  } else {
    rows_ = std::make_shared<const VirtualRows>(rows_at(start, site.key));
  }
  virtual_site_.emplace(Site{site.model, rows_->data, site.round, site.key});
  virtual_stream_.emplace(*virtual_site_, Part::kTrain, options.batch);
}

VirtualSteps::~VirtualSteps() {
  if (sums_.batches > 0) training_.log->note(site_.key, sums_);
}

Virtual VirtualSteps::transformed_here(const Weights& at, const Examples& batch, uint64_t key) {
  auto out = transformed(site_.model, at, batch, scale_, training_.options, key);
  ++sums_.batches;
  sums_.gradient_distance += out.gradient_distance, sums_.pixel_distance += out.pixel_distance;
  sums_.label_term += out.label_term;
  sums_.worst_gradient_distance = std::max(sums_.worst_gradient_distance, out.gradient_distance);
  return out;
}

VirtualRows VirtualSteps::rows_at(const Weights& at, uint64_t key) {
  auto pool = std::make_shared<Pool>();
  VirtualRows out;
  uint64_t group = 0;
  std::vector<Tensor> pictures, labels;
  for (const auto& [begin, end] : groups_of(n_, training_.options.batch)) {
    const auto made = transformed_here(at, site_.data.range(part_, begin, end),
                                       derive(key, kVirtualStream, group++));
    pictures.push_back(made.x), labels.push_back(made.y);
  }
  pool->x = at::cat(pictures), pool->y = at::arange(n_, at::kLong);
  pool->classes = site_.data.classes();
  out.labels = at::cat(labels);
  out.data.name = site_.data.name, out.data.pool = std::move(pool);
  out.data.train.resize(static_cast<size_t>(n_));
  std::iota(out.data.train.begin(), out.data.train.end(), 0);
  return out;
}

Examples VirtualSteps::virtual_batch(const Weights& at, Examples batch, uint64_t key) {
  if (batch.size() < TransformOptions::kLeastBatch)
    batch =
        site_.data.take(part_, Rng(derive(key, kVirtualStream)).sample(n_, std::min(batch_, n_)));
  std::vector<Tensor> pictures, labels;
  uint64_t group = 0;
  for (const auto& [begin, end] : groups_of(batch.size(), training_.options.batch)) {
    const Examples some{batch.x.slice(0, begin, end), batch.y.slice(0, begin, end)};
    const auto made = transformed_here(at, some, derive(key, kVirtualStream, ++group));
    pictures.push_back(made.x), labels.push_back(made.y);
  }
  return {at::cat(pictures), at::cat(labels)};
}

double VirtualSteps::gradient(EpochStream& stream, Weights& at, Tensor& g) {
  if (virtual_stream_) {
    const auto [batch, key] = virtual_stream_->next();
    const Examples soft{batch.x, rows_->labels.index_select(0, batch.y)};
    return batch_gradient(site_.model, at, soft, Loss::kCrossEntropy, key, g);
  }
  auto [batch, key] = stream.next();
  const auto made = virtual_batch(at, std::move(batch), key);
  return batch_gradient(site_.model, at, made, Loss::kCrossEntropy, key, g);
}

}  // namespace tessera

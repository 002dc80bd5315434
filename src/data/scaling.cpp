#include "data/scaling.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "data/inputs.hpp"

namespace tessera {
namespace {

// Kahan's sum: the error does not grow with the number of terms. A constant column of a million
// rows is told from one that varies by this.
void add_to(double& sum, double& rest, double term) {
  const double missing = term - rest, next = sum + missing;
  rest = (next - sum) - missing;
  sum = next;
}

}  // namespace

FeatureSums::FeatureSums(const std::vector<int64_t>& shape) : channels_(shape.size() == 3) {
  for (const int64_t size : shape) sample_ *= static_cast<size_t>(size);
  const auto features = static_cast<size_t>(channels_ ? shape.front() : shape.back());
  if (channels_) plane_ = sample_ / features;
  n.resize(features), sum.resize(features), squares.resize(features);
  sum_rest_.resize(features), squares_rest_.resize(features);
}

void FeatureSums::add(const float* x, std::span<const int64_t> rows) {
  for (const int64_t row : rows) {
    const float* sample = x + static_cast<size_t>(row) * sample_;
    for (size_t i = 0; i < sample_; ++i) {
      const size_t f = channels_ ? i / plane_ : i % features();
      const double value = sample[i];
      n[f] += 1;
      add_to(sum[f], sum_rest_[f], value);
      add_to(squares[f], squares_rest_[f], value * value);
    }
  }
}

void FeatureSums::add(const FeatureSums& other) {
  for (size_t f = 0; f < features(); ++f) {
    n[f] += other.n[f];
    add_to(sum[f], sum_rest_[f], other.sum[f]);
    add_to(squares[f], squares_rest_[f], other.squares[f]);
  }
}

double FeatureSums::deviation(size_t f) const {
  if (n[f] == 0) return 0;
  const double mean = sum[f] / n[f], square = squares[f] / n[f];
  const double variance = square - mean * mean;
  // Both terms are rounded; what is left of a constant column is noise of this size.
  return variance > 1e-14 * square ? std::sqrt(variance) : 0.0;
}

Scaling scaling_of(const FeatureSums& sums, const std::vector<bool>& keep) {
  Scaling out;
  for (size_t f = 0; f < sums.features(); ++f) {
    const bool kept = !keep.empty() && keep[f];
    const double deviation = sums.deviation(f);
    out.mean.push_back(kept || sums.n[f] == 0 ? 0.0f : static_cast<float>(sums.sum[f] / sums.n[f]));
    out.scale.push_back(kept ? 1.0f : deviation > 0 ? static_cast<float>(1.0 / deviation) : 0.0f);
  }
  return out;
}

Tensor apply_scaling(const Tensor& x, const Scaling& scaling) {
  if (scaling.mean.empty()) return x;
  const auto features = static_cast<int64_t>(scaling.mean.size());
  const int64_t axis = x.dim() == 4 ? 1 : x.dim() - 1;
  TORCH_CHECK(x.dim() >= 2 && x.dim() <= 4 && x.size(axis) == features &&
                  scaling.scale.size() == scaling.mean.size(),
              "a scaling of ", features, " features does not fit samples ", x.sizes());
  auto out = at::empty(x.sizes(), at::kFloat);
  const auto from = x.contiguous();
  const float* in = from.data_ptr<float>();
  float* to = out.data_ptr<float>();
  const int64_t plane = x.dim() == 4 ? x.size(2) * x.size(3) : 1;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const auto f = static_cast<size_t>(i / plane % features);
    to[i] =
        static_cast<float>((double{in[i]} - double{scaling.mean[f]}) * double{scaling.scale[f]});
  }
  return out;
}

}  // namespace tessera

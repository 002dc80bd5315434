#include "method/mosaic/last_value.hpp"

#include <ATen/ATen.h>

namespace tessera {

std::vector<float> bin_limits(const LastLabel& last) {
  const auto& limits = last.limits;
  if (limits.empty()) return {1, 2, 3};  // of one class: any three
  const auto step = [&](size_t i) {      // of the class above limit i
    constexpr float kAlone = 0.25F;
    return i + 1 < limits.size() ? (limits[i + 1] - limits[i]) / kBinsOfAClass : kAlone;
  };
  std::vector<float> out;
  const float low = step(0);
  for (int64_t j = kBinsOfAClass - 1; j > 0; --j)
    out.push_back(limits.front() - static_cast<float>(j) * low);
  for (size_t i = 0; i < limits.size(); ++i) {
    const float width = i + 1 < limits.size() || i == 0 ? step(i) : step(i - 1);
    for (int64_t j = 0; j < kBinsOfAClass; ++j)
      out.push_back(limits[i] + static_cast<float>(j) * width);
  }
  return out;
}

Tensor last_bins(const LastLabel& last, const Tensor& x) {
  const auto value = x.flatten(1).select(1, last.at).contiguous();
  return at::bucketize(value, at::tensor(bin_limits(last)));
}

Tensor follow_counts(const ClientData& data) {
  const int64_t classes = data.classes();
  auto out = at::zeros({kBinsOfAClass * classes, classes}, at::kDouble);
  const int64_t n = data.train_size();
  if (!data.last_label || n == 0) return out;
  const auto rows = data.range(Part::kTrain, 0, n);
  const auto cell = last_bins(*data.last_label, rows.x) * classes + rows.y;
  out.view({-1}).index_add_(0, cell, at::ones({n}, at::kDouble));
  return out;
}

Tensor follow_shares(const Tensor& counts) {
  const auto known = counts.clamp_min(0);
  const auto all = (known.sum(0) + 1) / (known.sum() + known.size(1));
  return (known + all) / (known.sum(1, /*keepdim=*/true) + 1);
}

Tensor log_follow_shares(const Tensor& own_counts, const Tensor& shares, double k) {
  const auto drawn = own_counts + k * shares.to(at::kDouble);
  return (drawn / drawn.sum(1, /*keepdim=*/true)).log();
}

}  // namespace tessera

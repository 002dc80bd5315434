#include "data/client_data.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tessera {

Result<std::shared_ptr<const ClientData>> ClientData::open() const {
  if (!is_here()) return elsewhere.source->open(elsewhere.number);
  return std::shared_ptr<const ClientData>(std::shared_ptr<void>(), this);
}

const std::vector<int64_t>& ClientData::rows(Part part) const {
  TORCH_CHECK(is_here(), "the data of client ", name, " were not opened");
  switch (part) {
    case Part::kTrain:
      return train;
    case Part::kVal:
      return val;
    case Part::kTest:
      return test;
    case Part::kSupport:
      return support;
  }
  TORCH_CHECK(false, "no such part of a client's data");
}

Examples ClientData::take(Part part, std::span<const int64_t> positions) const {
  if (log) log->emplace_back(part, std::vector<int64_t>(positions.begin(), positions.end()));
  const auto& from = rows(part);
  const auto n = static_cast<int64_t>(positions.size());
  auto shape = pool->x.sizes().vec();
  shape[0] = n;
  Examples out{at::empty(shape, pool->x.options()), at::empty({n}, pool->y.options())};
  const int64_t sample = n > 0 ? out.x.numel() / n : 0;
  const int64_t stride = pool->x.stride(0);  // less than `sample` where windows overlap
  const float* x = pool->x.data_ptr<float>();
  const int64_t* y = pool->y.data_ptr<int64_t>();
  float* out_x = out.x.data_ptr<float>();
  int64_t* out_y = out.y.data_ptr<int64_t>();
  const bool shared = pool->shares.defined();
  std::vector<int64_t> rows_taken;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = from.at(static_cast<size_t>(positions[static_cast<size_t>(i)]));
    std::memcpy(out_x + i * sample, x + row * stride, static_cast<size_t>(sample) * sizeof(float));
    out_y[i] = y[row];
    if (shared) rows_taken.push_back(row);
  }
  if (shared) out.y = pool->shares.index_select(0, at::tensor(rows_taken, at::kLong));
  return out;
}

Examples ClientData::range(Part part, int64_t begin, int64_t end) const {
  std::vector<int64_t> positions(static_cast<size_t>(std::max<int64_t>(0, end - begin)));
  std::iota(positions.begin(), positions.end(), begin);
  return take(part, positions);
}

std::vector<int64_t> ClientData::class_counts(Part part) const {
  std::vector<int64_t> counts(static_cast<size_t>(classes()));
  const int64_t* y = pool->y.data_ptr<int64_t>();
  for (const int64_t row : rows(part)) ++counts[static_cast<size_t>(y[row])];
  return counts;
}

RowCut ClientData::cut(int64_t count) const {
  const int64_t late = train_size() - count;
  if (!order.chronological) return {late, late};
  return {std::max(std::min<int64_t>(1, late), clear_before(train, late, order.gap)), late};
}

std::vector<int64_t> ClientData::sample(Part part, int64_t most) const {
  if (order.chronological) return evenly(size(part), most);
  std::vector<int64_t> out(static_cast<size_t>(std::min(size(part), most)));
  std::iota(out.begin(), out.end(), int64_t{0});
  return out;
}

}  // namespace tessera

#include "train/derived_data.hpp"

#include <ATen/ATen.h>

#include <numeric>

namespace tessera {

ClientData mapped_training(const ClientData& data, std::vector<int64_t> sample,
                           const std::function<Tensor(const Tensor& x)>& map) {
  constexpr int64_t kChunk = 256;  // the samples themselves are gathered piecewise
  const int64_t n = data.train_size();
  sample.insert(sample.begin(), n);
  auto pool = std::make_shared<Pool>();
  pool->x = at::empty(sample, at::kFloat);
  pool->y = at::empty({n}, at::kLong);
  pool->classes = data.classes();
  pool->derived = true;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t size = std::min(kChunk, n - begin);
    const auto some = data.range(Part::kTrain, begin, begin + size);
    pool->x.narrow(0, begin, size).copy_(map(some.x));
    pool->y.narrow(0, begin, size).copy_(some.y);
  }
  ClientData out;
  out.name = data.name;
  out.pool = std::move(pool);
  out.train.resize(static_cast<size_t>(n));
  std::iota(out.train.begin(), out.train.end(), 0);
  out.order = data.order;  // numbers lie closer now, so the gap is wide enough
  return out;
}

}  // namespace tessera

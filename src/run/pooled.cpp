#include "run/pooled.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace tessera {
namespace {

// Pools laid end to end, still as overlapping windows where they are such: expanding those would
// cost their overlap in memory. Rows that would cross two pools exist but nobody refers to them.
struct Joined {
  std::shared_ptr<const Pool> pool;
  std::map<const Pool*, int64_t> first;  // row of each pool's first sample
};

Joined join_pools(std::span<const ClientData> clients) {
  const Pool& like = *clients.front().pool;
  const int64_t stride = like.x.stride(0);
  const int64_t sample = like.x[0].numel();
  Joined out;
  int64_t rows = 0, last = 0;
  for (const auto& client : clients) {
    const auto& x = client.pool->x;
    TORCH_CHECK(x.stride(0) == stride && x.sizes().slice(1) == like.x.sizes().slice(1),
                "clients with samples of different shapes cannot be pooled");
    if (!out.first.emplace(client.pool.get(), rows).second) continue;
    last = rows + x.size(0);
    rows += ((x.size(0) - 1) * stride + sample + stride - 1) / stride;
  }
  auto flat = at::zeros({rows * stride}, like.x.options());
  auto y = at::zeros({last}, like.y.options());
  for (const auto& [pool, row] : out.first) {
    const int64_t values = (pool->x.size(0) - 1) * stride + sample;
    std::memcpy(flat.data_ptr<float>() + row * stride, pool->x.data_ptr<float>(),
                static_cast<size_t>(values) * sizeof(float));
    y.narrow(0, row, pool->y.size(0)).copy_(pool->y);
  }
  auto sizes = like.x.sizes().vec();
  sizes[0] = last;
  out.pool =
      std::make_shared<const Pool>(Pool{flat.as_strided(sizes, like.x.strides()), y, like.classes});
  return out;
}

}  // namespace

ClientData pooled(std::span<const ClientData> clients) {
  const bool shared = std::all_of(clients.begin(), clients.end(), [&](const ClientData& client) {
    return client.pool == clients.front().pool;
  });
  const auto joined = shared ? Joined{clients.front().pool, {{clients.front().pool.get(), 0}}}
                             : join_pools(clients);
  ClientData all;
  all.name = "everybody";
  all.pool = joined.pool;
  for (const auto& client : clients) {
    const int64_t first = joined.first.at(client.pool.get());
    for (const int64_t row : client.train) all.train.push_back(first + row);
    for (const int64_t row : client.val) all.val.push_back(first + row);
  }
  return all;
}

}  // namespace tessera

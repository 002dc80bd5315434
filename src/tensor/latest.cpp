#include "tensor/latest.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <numeric>

namespace tessera {

void LatestModels::begin(int64_t clients, const Weights& first, Tensor least_buffers) {
  const auto none = at::empty({0}, first.w.options());
  latest.assign(static_cast<size_t>(clients), {none, none});
  common = first;
  least = std::move(least_buffers);
}

void LatestModels::refresh_common() {
  const auto ids = known();
  common = mixture(ids, std::vector<double>(ids.size(), 1));
}

std::vector<int64_t> LatestModels::known(std::span<const int64_t> clients) const {
  std::vector<int64_t> ids;
  for (const int64_t id : clients)
    if (latest.at(static_cast<size_t>(id)).w.numel() > 0) ids.push_back(id);
  return ids;
}

std::vector<int64_t> LatestModels::known() const {
  std::vector<int64_t> everybody(latest.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  return known(everybody);
}

std::vector<Tensor> LatestModels::vectors(std::span<const int64_t> ids) const {
  std::vector<Tensor> out;
  for (const int64_t id : ids) out.push_back(latest[static_cast<size_t>(id)].w);
  return out;
}

Weights LatestModels::mixture(std::span<const int64_t> ids, std::span<const double> shares,
                              const std::optional<Weights>& own) const {
  std::vector<Weighted> parts;
  for (size_t k = 0; k < ids.size(); ++k)
    if (shares[k] > 0) parts.push_back({latest[static_cast<size_t>(ids[k])], shares[k]});
  if (own && shares.back() > 0) parts.push_back({*own, shares.back()});
  if (parts.size() == 1) return parts.front().value;
  auto out = mean(parts);
  out.b = at::maximum(out.b, least);
  return out;
}

Tensor among_all(const Tensor& matrix, const Tensor& ids, int64_t n) {
  return at::full({n, n}, std::nan(""), at::kDouble)
      .index_put_({ids.unsqueeze(1), ids.unsqueeze(0)}, matrix);
}

}  // namespace tessera

#include "method/similarity/latest.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace tessera {

Weights blank(const Model& model) {
  return {at::zeros({model.layout().numel()}), at::zeros({model.buffers().numel()})};
}

std::vector<ClientId> members(std::span<const Ask<GuestModel>> asks) {
  std::vector<ClientId> ids;
  for (const auto& ask : asks)
    if (ask.why != Why::kJoin) ids.push_back(ask.client);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<ClientId> known(const PerClient<Weights>& models, std::span<const ClientId> clients) {
  std::vector<ClientId> ids;
  for (const ClientId id : clients)
    if (models.contains(id)) ids.push_back(id);
  return ids;
}

std::optional<size_t> place_of(std::span<const ClientId> ids, ClientId id) {
  const auto at = std::lower_bound(ids.begin(), ids.end(), id);
  if (at == ids.end() || *at != id) return std::nullopt;
  return static_cast<size_t>(at - ids.begin());
}

std::vector<Tensor> vectors(const PerClient<Weights>& models, std::span<const ClientId> ids) {
  std::vector<Tensor> out;
  for (const ClientId id : ids) out.push_back(models.find(id)->w);
  return out;
}

Weights mixture(const PerClient<Weights>& models, std::span<const ClientId> ids,
                std::span<const double> shares, const Weights* own, const Tensor& least) {
  std::vector<Weighted> parts;
  for (size_t k = 0; k < ids.size(); ++k)
    if (shares[k] > 0) parts.push_back({*models.find(ids[k]), shares[k]});
  if (own && shares.back() > 0) parts.push_back({*own, shares.back()});
  if (parts.size() == 1) return parts.front().value;
  auto out = mean(parts);
  out.b = at::maximum(out.b, least);
  return out;
}

Weights common_start(const PerClient<Weights>& models, const Setup& setup) {
  if (models.empty()) return setup.model.init(setup.key);
  const auto ids = models.ids();
  return mixture(models, ids, std::vector<double>(ids.size(), 1), nullptr,
                 least_buffers(setup.model));
}

Tensor among_all(const Tensor& matrix, std::span<const ClientId> ids, int64_t n) {
  const auto places = at::tensor(at::ArrayRef<ClientId>(ids.data(), ids.size()), at::kLong);
  return at::full({n, n}, std::nan(""), at::kDouble)
      .index_put_({places.unsqueeze(1), places.unsqueeze(0)}, matrix);
}

}  // namespace tessera

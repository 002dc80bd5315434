// What a server does with its clients' latest models that mixes them for every client (FedACS,
// FedAMP). Models are handles, never copied.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "method/method.hpp"

namespace tessera {

/// The model that a newcomer has uploaded: all the server learns of it.
using GuestModel = Weights;

/// What an upload of a model looks like.
Weights blank(const Model& model);

/// Those who are asked and no newcomers, ascending.
std::vector<ClientId> members(std::span<const Ask<GuestModel>> asks);
/// Those of `clients` who have uploaded, in the same order.
std::vector<ClientId> known(const PerClient<Weights>& models, std::span<const ClientId> clients);
/// Where a client is among `ids` (ascending), if it is.
std::optional<size_t> place_of(std::span<const ClientId> ids, ClientId id);

/// The parameters of these clients' models.
std::vector<Tensor> vectors(const PerClient<Weights>& models, std::span<const ClientId> ids);
/// Σ shares[k] w_k / Σ shares[k] over `ids` and then `own`, if there is one; only positive shares
/// count. Buffers stay at `least` or more. A single model stays as it is.
Weights mixture(const PerClient<Weights>& models, std::span<const ClientId> ids,
                std::span<const double> shares, const Weights* own, const Tensor& least);
/// What those start from who have no model of their own: the mean of all models, or the common
/// initial one before there are any.
Weights common_start(const PerClient<Weights>& models, const Setup& setup);

/// The entries of a row as numbers.
template <class T>
std::vector<T> numbers(const Tensor& row) {
  const auto whole = row.contiguous();
  return {whole.data_ptr<T>(), whole.data_ptr<T>() + whole.numel()};
}

/// A matrix among some clients [m, m] as one among all [n, n]: NaN for the others.
Tensor among_all(const Tensor& matrix, std::span<const ClientId> ids, int64_t n);

}  // namespace tessera

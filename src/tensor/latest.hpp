// What a server keeps that mixes its clients' models: the latest of each.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tensor/weights.hpp"

namespace tessera {

/// Handles, never copies. Clients are numbered 0 … N−1.
struct LatestModels {
  std::vector<Weights> latest;  // by client; empty tensors before its first upload
  Weights common;               // their mean; the first model before there are any
  Tensor least;                 // [d_b]: what buffers must not fall below in a mixture
  static void fields(auto& m, auto&& f) {
    f("latest", m.latest), f("common", m.common), f("least", m.least);
  }

  /// Before round 1: nobody has uploaded.
  void begin(int64_t clients, const Weights& first, Tensor least_buffers);
  /// After the uploads of a round have been put into `latest`.
  void refresh_common();

  /// Those who have uploaded, of these clients or of all; ascending.
  std::vector<int64_t> known(std::span<const int64_t> clients) const;
  std::vector<int64_t> known() const;
  std::vector<Tensor> vectors(std::span<const int64_t> ids) const;
  /// Σ shares[k] w_k / Σ shares[k] over `ids` and then `own`; only positive shares count. A single
  /// model stays as it is.
  Weights mixture(std::span<const int64_t> ids, std::span<const double> shares,
                  const std::optional<Weights>& own = std::nullopt) const;
};

/// The entries of a row as numbers.
template <class T>
std::vector<T> numbers(const Tensor& row) {
  const auto whole = row.contiguous();
  return {whole.data_ptr<T>(), whole.data_ptr<T>() + whole.numel()};
}

/// A matrix among some clients [m, m] (ids int64 [m]) as one among all [n, n]: NaN for the others.
Tensor among_all(const Tensor& matrix, const Tensor& ids, int64_t n);

}  // namespace tessera

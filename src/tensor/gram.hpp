// Inner products between models: every distance, cosine and cluster on the server comes from them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>

namespace tessera {

using at::Tensor;

/// <rows[i] − origin, rows[j] − origin> as float64 [n, n], exactly symmetric; no origin is 0. Rows
/// and origin are float32 [d] of equal length; products are summed in short pieces of float32 and
/// those in float64.
Tensor gram(std::span<const Tensor> rows, const std::optional<Tensor>& origin = std::nullopt);

/// ||rows[i] − rows[j]||², from their Gram matrix; never negative, 0 on the diagonal.
Tensor squared_distances(const Tensor& gram);
/// ||one − rows[i]||² [n].
Tensor squared_distances(const Tensor& one, std::span<const Tensor> rows);

/// Cosines [n, n] from a Gram matrix: within −1 … 1, exactly 1 on the diagonal, 0 next to a row of
/// zeros.
Tensor cosines(const Tensor& gram);

/// Cosines [n] between `one` and every row, seen from the origin, with the same bounds.
Tensor cosines(const Tensor& one, std::span<const Tensor> rows,
               const std::optional<Tensor>& origin = std::nullopt);

}  // namespace tessera

// Inner products between models: every distance, cosine and cluster on the server comes from them.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace tessera {

using at::Tensor;

/// <rows[i], rows[j]> as float64 [n, n], exactly symmetric. Rows are float32 [d] of equal length;
/// products are summed in short pieces of float32 and those in float64.
Tensor gram(std::span<const Tensor> rows);

/// ||rows[i] − rows[j]||², from their Gram matrix; never negative, 0 on the diagonal.
Tensor squared_distances(const Tensor& gram);

}  // namespace tessera

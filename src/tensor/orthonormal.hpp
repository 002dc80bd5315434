// Random directions at right angles.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace tessera {

using at::Tensor;

/// Makes the rows (of `length` numbers each, as many as fit in `rows`, not more than `length`)
/// orthonormal, one after the other. Our own because LAPACK's QR differs between machines.
void orthonormalize(std::span<double> rows, size_t length);

/// Float32 [rows, columns], drawn from the key: orthonormal rows, or columns where there are fewer
/// of them.
Tensor orthonormal(int64_t rows, int64_t columns, uint64_t key);

}  // namespace tessera

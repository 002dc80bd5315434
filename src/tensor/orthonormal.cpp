#include "tensor/orthonormal.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "base/key.hpp"

namespace tessera {
namespace {

double inner(std::span<const double> a, std::span<const double> b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

void orthonormalize(std::span<double> rows, size_t length) {
  for (size_t i = 0; i < rows.size() / length; ++i) {
    const auto row = rows.subspan(i * length, length);
    // Removing each projection twice keeps the rows orthogonal to rounding.
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t j = 0; j < i; ++j) {
        const auto other = rows.subspan(j * length, length);
        const double along = inner(row, other);
        for (size_t k = 0; k < length; ++k) row[k] -= along * other[k];
      }
    }
    const double norm = std::sqrt(inner(row, row));
    for (double& value : row) value /= norm;
  }
}

Tensor orthonormal(int64_t rows, int64_t columns, uint64_t key) {
  const int64_t count = std::min(rows, columns), length = std::max(rows, columns);
  auto out = at::empty({count, length}, at::kDouble);
  const std::span numbers(out.data_ptr<double>(), static_cast<size_t>(out.numel()));
  Rng rng(key);
  for (double& value : numbers) value = rng.normal();
  orthonormalize(numbers, static_cast<size_t>(length));
  return (rows <= columns ? out : out.t()).to(at::kFloat).contiguous();
}

}  // namespace tessera

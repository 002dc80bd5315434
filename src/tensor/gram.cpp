#include "tensor/gram.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace tessera {

Tensor gram(std::span<const Tensor> rows) {
  // Long enough for the product to run at full speed, short enough that rounding stays near 1e-7.
  constexpr int64_t kPiece = 1024;
  const auto n = static_cast<int64_t>(rows.size());
  auto sum = at::zeros({n, n}, at::kDouble);
  const int64_t d = n > 0 ? rows[0].numel() : 0;
  for (const auto& row : rows)
    if (row.numel() != d) throw std::invalid_argument("gram: rows differ in length");
  std::vector<Tensor> pieces(rows.size());
  for (int64_t begin = 0; begin < d; begin += kPiece) {
    for (size_t i = 0; i < rows.size(); ++i)
      pieces[i] = rows[i].narrow(0, begin, std::min(kPiece, d - begin));
    const auto block = at::stack(pieces);
    sum.add_(at::mm(block, block.t()));
  }
  // BLAS may round the two halves differently.
  return sum.add(sum.t()).div_(2);
}

Tensor squared_distances(const Tensor& gram) {
  const auto own = gram.diagonal();
  auto out = own.unsqueeze(0).add(own.unsqueeze(1)).sub_(gram, 2).clamp_min_(0);
  out.diagonal().zero_();
  return out;
}

}  // namespace tessera

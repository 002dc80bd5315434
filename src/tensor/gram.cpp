#include "tensor/gram.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace tessera {
namespace {

/// Calls work([n, piece]) with the rows, less the origin, a piece of their length at a time: long
/// enough for products to run at full speed, short enough that rounding stays near 1e-7.
template <class Work>
void for_pieces(std::span<const Tensor> rows, const std::optional<Tensor>& origin, Work work) {
  constexpr int64_t kPiece = 1024;
  const int64_t d = rows.empty() ? 0 : rows[0].numel();
  for (const auto& row : rows)
    if (row.numel() != d) throw std::invalid_argument("gram: rows differ in length");
  if (origin && !rows.empty() && origin->numel() != d)
    throw std::invalid_argument("gram: the origin differs in length");
  std::vector<Tensor> pieces(rows.size());
  for (int64_t begin = 0; begin < d; begin += kPiece) {
    const int64_t size = std::min(kPiece, d - begin);
    for (size_t i = 0; i < rows.size(); ++i) pieces[i] = rows[i].narrow(0, begin, size);
    auto block = at::stack(pieces);
    if (origin) block.sub_(origin->narrow(0, begin, size));
    work(block);
  }
}

/// Products over norms; anything over no norm is 0.
Tensor over_norms(const Tensor& products, const Tensor& squares) {
  const auto cosine = products.div(squares.sqrt()).clamp_(-1, 1);
  return at::where(squares > 0, cosine, at::zeros_like(cosine));
}

}  // namespace

Tensor gram(std::span<const Tensor> rows, const std::optional<Tensor>& origin) {
  constexpr int64_t kTile = 128;
  const auto n = static_cast<int64_t>(rows.size());
  auto sum = at::zeros({n, n}, at::kDouble);
  for_pieces(rows, origin, [&](const Tensor& block) {
    // Only tiles that reach the upper triangle.
    for (int64_t first = 0; first < n; first += kTile) {
      const int64_t height = std::min(kTile, n - first);
      const auto right = block.narrow(0, first, n - first);
      sum.narrow(0, first, height)
          .narrow(1, first, n - first)
          .add_(at::mm(right.narrow(0, 0, height), right.t()));
    }
  });
  return sum.triu().add_(sum.triu(1).t());
}

Tensor squared_distances(const Tensor& gram) {
  const auto own = gram.diagonal();
  auto out = own.unsqueeze(0).add(own.unsqueeze(1)).sub_(gram, 2).clamp_min_(0);
  out.diagonal().zero_();
  return out;
}

Tensor squared_distances(const Tensor& one, std::span<const Tensor> rows) {
  auto out = at::zeros({static_cast<int64_t>(rows.size())}, at::kDouble);
  for_pieces(rows, one, [&](const Tensor& block) { out.add_(block.square().sum(1)); });
  return out;
}

Tensor cosines(const Tensor& gram) {
  const auto own = gram.diagonal();
  auto out = over_norms(gram, own.unsqueeze(0).mul(own.unsqueeze(1)));
  out.diagonal().fill_(1);
  return out;
}

Tensor cosines(const Tensor& one, std::span<const Tensor> rows,
               const std::optional<Tensor>& origin) {
  std::vector<Tensor> all{one};
  all.insert(all.end(), rows.begin(), rows.end());
  auto products = at::zeros({static_cast<int64_t>(all.size())}, at::kDouble);
  auto squares = at::zeros_like(products);
  for_pieces(all, origin, [&](const Tensor& block) {
    products.add_(at::mv(block, block[0]));
    squares.add_(block.square().sum(1));
  });
  const auto n = static_cast<int64_t>(rows.size());
  return over_norms(products.narrow(0, 1, n), squares.narrow(0, 1, n).mul(squares[0]));
}

}  // namespace tessera

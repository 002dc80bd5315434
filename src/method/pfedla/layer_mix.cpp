#include "method/pfedla/layer_mix.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>

#include "tensor/weights.hpp"

namespace tessera {
namespace {

Tensor table_of(const std::vector<int64_t>& entries) {
  return at::tensor(entries, at::kLong).view({-1, 3});
}

/// Calls work(begin, size, block) for every stretch.
template <class Work>
void for_stretches(const Tensor& table, Work work) {
  const auto whole = table.contiguous();
  const auto* at = whole.data_ptr<int64_t>();
  for (int64_t i = 0; i < whole.size(0); ++i, at += 3) work(at[0], at[1], at[2]);
}

std::vector<Tensor> cut(std::span<const Tensor> rows, int64_t begin, int64_t size) {
  std::vector<Tensor> out;
  for (const auto& row : rows) out.push_back(row.narrow(0, begin, size));
  return out;
}

}  // namespace

Tensor block_table(const Layout& layout) { return block_table(layout, layout); }

Tensor block_table(const Layout& buffers, const Layout& layout) {
  const auto blocks = layout.blocks();
  std::vector<int64_t> out;
  for (const auto& stretch : buffers.blocks()) {
    const auto at = std::find_if(blocks.begin(), blocks.end(),
                                 [&](const Block& block) { return block.name == stretch.name; });
    if (at == blocks.end()) throw std::invalid_argument("no parameters go with " + stretch.name);
    out.insert(out.end(), {stretch.begin, stretch.size, at - blocks.begin()});
  }
  return table_of(out);
}

Tensor mixed(std::span<const Tensor> rows, const Tensor& shares, const Tensor& table) {
  const auto weights = shares.to(at::kDouble).contiguous();
  auto out = at::empty_like(rows.front());
  for_stretches(table, [&](int64_t begin, int64_t size, int64_t block) {
    const auto* share = weights.data_ptr<double>() + block * weights.size(1);
    std::vector<Tensor> parts;
    std::vector<double> nonzero;
    for (size_t j = 0; j < rows.size(); ++j) {
      if (share[j] == 0) continue;
      parts.push_back(rows[j].narrow(0, begin, size));
      nonzero.push_back(share[j]);
    }
    out.narrow(0, begin, size).copy_(parts.size() == 1 ? parts.front() : mean(parts, nonzero));
  });
  return out;
}

Tensor block_products(const Tensor& one, std::span<const Tensor> rows, const Tensor& table) {
  constexpr int64_t kPiece = 1024;  // as in gram()
  auto out =
      at::zeros({table.select(1, 2).max().item<int64_t>() + 1, static_cast<int64_t>(rows.size())},
                at::kDouble);
  for_stretches(table, [&](int64_t begin, int64_t size, int64_t block) {
    for (int64_t done = 0; done < size; done += kPiece) {
      const int64_t piece = std::min(kPiece, size - done);
      out[block].add_(
          at::stack(cut(rows, begin + done, piece)).mv(one.narrow(0, begin + done, piece)));
    }
  });
  return out;
}

Tensor without_blocks(const Tensor& whole, std::span<const int64_t> kept, const Tensor& table) {
  std::vector<Tensor> rest{whole.narrow(0, 0, 0)};
  for_stretches(table, [&](int64_t begin, int64_t size, int64_t block) {
    if (!std::binary_search(kept.begin(), kept.end(), block))
      rest.push_back(whole.narrow(0, begin, size));
  });
  return at::cat(rest);
}

Tensor with_blocks(const Tensor& own, const Tensor& rest, std::span<const int64_t> kept,
                   const Tensor& table) {
  auto out = own.clone();
  int64_t from = 0;
  for_stretches(table, [&](int64_t begin, int64_t size, int64_t block) {
    if (std::binary_search(kept.begin(), kept.end(), block)) return;
    out.narrow(0, begin, size).copy_(rest.narrow(0, from, size));
    from += size;
  });
  return out;
}

}  // namespace tessera

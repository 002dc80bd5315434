#include "tensor/split.hpp"

#include <ATen/ATen.h>

namespace tessera {

Split::Split(const Layout& layout, Tensor part)
    : part_(std::move(part)), rest_(layout.others(part_)) {}

Split::Split(const Layout& layout, Role role)
    : Split(layout, layout.positions([role](const Slice& slice) { return slice.role == role; })) {}

Weights Split::joined(const Tensor& part, const Weights& rest) const {
  const auto w = at::empty({part_.numel() + rest_.numel()}, part.options());
  w.index_copy_(0, rest_, rest.w).index_copy_(0, part_, part);
  return {w, rest.b};
}

Tensor Split::mask() const {
  return at::zeros({part_.numel() + rest_.numel()}, at::kBool).index_fill_(0, part_, true);
}

}  // namespace tessera

#include "tensor/split.hpp"

#include <ATen/ATen.h>

namespace tessera {

Split::Split(const Layout& layout, Tensor part)
    : part_(std::move(part)), rest_(layout.others(part_)) {}

Split::Split(const Layout& layout, int64_t modules) : Split(layout, layout.trailing(modules)) {}

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

Status check_per_layers(const Layout& layout, int64_t per_layers, std::string_view method) {
  const auto modules = static_cast<int64_t>(layout.blocks().size());
  if (per_layers < modules) return ok();
  return fail(Error::kInvalid,
              "{}: per_layers = {} takes all {} layers of this model; set method.per_layers to {} "
              "or less",
              method, per_layers, modules, modules - 1);
}

}  // namespace tessera

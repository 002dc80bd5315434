#include "tensor/split.hpp"

#include <ATen/ATen.h>

#include <cstring>

namespace tessera {
namespace {

/// The numbers of `from` to their positions in `to`. Neighbours go together: a part is a few
/// layers, so this is a few copies of much.
void scatter(const Tensor& from, const Tensor& positions, const Tensor& to) {
  TORCH_CHECK(from.numel() == positions.numel() && from.scalar_type() == to.scalar_type(),
              "a part of another size or type than its split");
  const auto source = from.contiguous(), where = positions.contiguous();
  const auto* const at = where.data_ptr<int64_t>();
  const auto size = static_cast<int64_t>(to.element_size());
  auto* const out = static_cast<char*>(to.data_ptr());
  const auto* const in = static_cast<const char*>(source.data_ptr());
  for (int64_t begin = 0, end = 0; begin < where.numel(); begin = end) {
    for (end = begin + 1; end < where.numel() && at[end] == at[end - 1] + 1;) ++end;
    std::memcpy(out + at[begin] * size, in + begin * size,
                static_cast<size_t>((end - begin) * size));
  }
}

}  // namespace

Split::Split(const Layout& layout, Tensor part)
    : part_(std::move(part)), rest_(layout.others(part_)) {}

Split::Split(const Layout& layout, int64_t modules) : Split(layout, layout.trailing(modules)) {}

Split::Split(const Layout& layout, Role role)
    : Split(layout, layout.positions([role](const Slice& slice) { return slice.role == role; })) {}

Weights Split::joined(const Tensor& part, const Weights& rest) const {
  const auto w = at::empty({part_.numel() + rest_.numel()}, part.options());
  if (part.requires_grad() || rest.w.requires_grad()) {
    w.index_copy_(0, rest_, rest.w).index_copy_(0, part_, part);
  } else {
    scatter(rest.w, rest_, w);
    scatter(part, part_, w);
  }
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

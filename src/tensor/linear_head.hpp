// The linear layer that ends a network, as a stretch of the flat vector.
#pragma once

#include <cstdint>
#include <optional>

#include "tensor/layout.hpp"

namespace tessera {

/// Weight [classes, width], then bias [classes]: the last numbers of a layout.
struct LinearHead {
  int64_t classes = 0, width = 0;
  int64_t begin = 0;  // where it starts in the flat vector

  int64_t numel() const { return classes * (width + 1); }
  /// Logits [n, classes] of features z [n, width] by a head's numbers [numel()]; differentiable.
  Tensor logits(const Tensor& numbers, const Tensor& z) const;
};

/// That of slices with Role::kHead; none where a network ends differently.
std::optional<LinearHead> linear_head(const Layout& layout);

}  // namespace tessera

#include "tensor/linear_head.hpp"

#include <ATen/ATen.h>

namespace tessera {

Tensor LinearHead::logits(const Tensor& numbers, const Tensor& z) const {
  const int64_t weights = classes * width;
  return at::linear(z, numbers.slice(0, 0, weights).view({classes, width}),
                    numbers.slice(0, weights));
}

std::optional<LinearHead> linear_head(const Layout& layout) {
  const auto& slices = layout.slices();
  if (slices.size() < 2) return std::nullopt;
  const auto &weight = slices[slices.size() - 2], &bias = slices.back();
  if (weight.role != Role::kHead || bias.role != Role::kHead || weight.shape.size() != 2 ||
      bias.shape != std::vector<int64_t>{weight.shape[0]})
    return std::nullopt;
  return LinearHead{weight.shape[0], weight.shape[1], layout.offset(slices.size() - 2)};
}

}  // namespace tessera

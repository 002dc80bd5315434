#include "train/pixel_scale.hpp"

#include <ATen/ATen.h>

namespace tessera {
namespace {

/// One number per channel, to be stretched over [n, C, …].
Tensor per_channel(const std::vector<double>& values, const Tensor& like) {
  std::vector<int64_t> shape(static_cast<size_t>(like.dim()), 1);
  shape[1] = static_cast<int64_t>(values.size());
  return at::tensor(values, at::kDouble).to(like.scalar_type()).view(shape);
}

}  // namespace

Tensor PixelScale::to_inputs(const Tensor& pixels) const {
  if (mean.empty()) return pixels;
  return (pixels - per_channel(mean, pixels)) / per_channel(std, pixels);
}

Tensor PixelScale::to_pixels(const Tensor& inputs) const {
  if (mean.empty()) return inputs;
  return inputs * per_channel(std, inputs) + per_channel(mean, inputs);
}

}  // namespace tessera

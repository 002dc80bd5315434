// Pictures as people see them, and as networks see them: attacks are measured on the former.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "train/pixel_scale.hpp"

namespace tessera {

/// Mean |horizontal differences| + mean |vertical differences| of [n, C, H, W]; differentiable.
/// Samples of another shape have no neighbours: 0.
Tensor total_variation(const Tensor& x);

/// Each channel of [n, C, H, W] under a Gaussian of this deviation, cut off at three of them;
/// borders are repeated.
Tensor blurred(const Tensor& x, double sigma);

/// Standard normal numbers of this shape from a key, float32.
Tensor gaussian_noise(const std::vector<int64_t>& shape, uint64_t key);

}  // namespace tessera

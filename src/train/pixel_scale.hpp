// Pictures as people see them, and as networks see them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace tessera {

using at::Tensor;

/// How pixels in [0, 1] become a network's inputs: (pixel − mean) / std for each channel. Empty:
/// inputs are the pixels. Both functions take [n, C, …] and can be differentiated.
struct PixelScale {
  std::vector<double> mean, std;

  Tensor to_inputs(const Tensor& pixels) const;
  Tensor to_pixels(const Tensor& inputs) const;
};

}  // namespace tessera

#include "attack/pixels.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "base/key.hpp"

namespace tessera {

Tensor total_variation(const Tensor& x) {
  if (x.dim() != 4) return at::zeros({}, x.options());
  Tensor sum = at::zeros({}, x.options());
  for (const int64_t side : {2, 3}) {
    const int64_t size = x.size(side);
    if (size < 2) continue;
    sum = sum + (x.narrow(side, 1, size - 1) - x.narrow(side, 0, size - 1)).abs().mean();
  }
  return sum;
}

Tensor blurred(const Tensor& x, double sigma) {
  const auto reach = static_cast<int64_t>(std::ceil(3 * sigma));
  const auto places = at::arange(-reach, reach + 1, x.options());
  auto line = (-places.square() / (2 * sigma * sigma)).exp();
  line = line / line.sum();
  const int64_t height = x.size(2), width = x.size(3);
  const auto flat = x.reshape({-1, 1, height, width});
  const auto wide = at::replication_pad2d(flat, {reach, reach, reach, reach});
  const auto rows = at::conv2d(wide, line.view({1, 1, -1, 1}));
  return at::conv2d(rows, line.view({1, 1, 1, -1})).view(x.sizes());
}

Tensor gaussian_noise(const std::vector<int64_t>& shape, uint64_t key) {
  Tensor out = at::empty(shape, at::kFloat);
  Rng rng(key);
  float* values = out.data_ptr<float>();
  for (int64_t i = 0; i < out.numel(); ++i) values[i] = static_cast<float>(rng.normal());
  return out;
}

}  // namespace tessera

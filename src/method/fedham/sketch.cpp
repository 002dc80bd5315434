#include "method/fedham/sketch.hpp"

#include <ATen/ATen.h>

#include <stdexcept>

#include "base/key.hpp"

namespace tessera {
namespace {

// out[row] += ± w[row], over all rows, for one block; out has `stride` numbers a row.
template <class T>
void add_block(const Tensor& rows, const Block& block, uint64_t key, int64_t width, double* out,
               int64_t stride) {
  const int64_t n = rows.size(0), d = rows.size(1);
  const T* w = rows.data_ptr<T>() + block.begin;
  const bool whole = block.size <= width;  // taken as it is
  for (int64_t t = 0; t < block.size; ++t) {
    // Place from the upper half of the word, sign from its lowest bit.
    const uint64_t word = derive(key, t);
    const auto place =
        whole ? t : static_cast<int64_t>(((word >> 32) * static_cast<uint64_t>(width)) >> 32);
    const double sign = whole || (word & 1) == 0 ? 1 : -1;
    for (int64_t row = 0; row < n; ++row)
      out[row * stride + place] += sign * static_cast<double>(w[row * d + t]);
  }
}

}  // namespace

Tensor sketch(const Tensor& rows, const Layout& layout, int64_t width, uint64_t key) {
  if (rows.dim() != 2 || rows.size(1) != layout.numel())
    throw std::invalid_argument("sketch: rows must have as many numbers as the model");
  const auto from = rows.contiguous();
  const auto blocks = layout.blocks();
  const int64_t stride = static_cast<int64_t>(blocks.size()) * width;
  auto out = at::zeros({rows.size(0), static_cast<int64_t>(blocks.size()), width}, at::kDouble);
  for (size_t i = 0; i < blocks.size(); ++i) {
    double* first = out.data_ptr<double>() + static_cast<int64_t>(i) * width;
    if (from.scalar_type() == at::kDouble)
      add_block<double>(from, blocks[i], derive(key, i), width, first, stride);
    else
      add_block<float>(from, blocks[i], derive(key, i), width, first, stride);
  }
  return out;
}

}  // namespace tessera

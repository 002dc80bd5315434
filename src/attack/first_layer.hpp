// Samples read off the gradient of a first fully connected layer, in closed form.
//
// With a = W x + b and delta = dL/da the gradients are dL/dW = delta xᵀ and dL/db = delta, so a row
// of the one divided by the entry of the other is the sample. A batch mixes: row r gives the mean
// of the samples weighted by their delta_r, which is one of them where it alone wakes ReLU unit r.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "attack/pixels.hpp"
#include "tensor/layout.hpp"

namespace tessera {

/// Where the first layer is in the flat vector: weight [rows, inputs], then bias [rows].
struct FirstLayer {
  int64_t weight = 0, bias = 0;  // where they begin
  int64_t rows = 0, inputs = 0;
};
/// None where the input does not meet a fully connected layer with a bias first. Of a Transformer
/// it is the embedding of patches: what is extracted then are mixtures of patches.
std::optional<FirstLayer> first_layer(const Layout& layout);

/// The gradient [d] that one step of plain SGD went along: (before − after) / lr.
Tensor gradient_of_step(const Tensor& before, const Tensor& after, double lr);

/// The sample [inputs] behind the gradient [d] of a single one; none where no unit felt it (all
/// bias gradients below 1e-12).
std::optional<Tensor> extract_sample(const FirstLayer& layer, const Tensor& gradient);

/// What every row gives [k, inputs], rows that felt nothing left out.
Tensor extract_rows(const FirstLayer& layer, const Tensor& gradient);

/// Pictures that could be samples of a batch, as pixels [k, C, H, W]: the rows that lie in the box
/// of pixels, by at most `slack` outside.
Tensor extract_pictures(const FirstLayer& layer, const Tensor& gradient,
                        const std::vector<int64_t>& sample, const PixelScale& scale,
                        double slack = 1e-3);

/// Weights by which an active server makes most units fire for about one sample of a batch: rows
/// N(0, s²) in magnitude, a random half of each negative and times gamma, the other half positive;
/// no bias.
struct Trap {
  double s = 0.1, gamma = 1.1;
};
/// The flat vector `w` [d] with a trap for its first layer; everything else stays.
Tensor with_trap(const FirstLayer& layer, const Tensor& w, const Trap& trap, uint64_t key);
/// The gamma with which a unit fires for 1 of `batch` samples on average, by bisection between 1
/// and 2 over inputs [n, …] the server has from elsewhere. Pixels must not be negative: of shifted
/// inputs the halves mean something else.
double trap_gamma(const FirstLayer& layer, const Tensor& inputs, int64_t batch, uint64_t key);

}  // namespace tessera

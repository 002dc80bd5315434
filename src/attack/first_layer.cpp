#include "attack/first_layer.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "base/key.hpp"

namespace tessera {
namespace {

constexpr double kFeltNothing = 1e-12;

Tensor weight_of(const FirstLayer& layer, const Tensor& flat) {
  return flat.narrow(0, layer.weight, layer.rows * layer.inputs).view({layer.rows, layer.inputs});
}
Tensor bias_of(const FirstLayer& layer, const Tensor& flat) {
  return flat.narrow(0, layer.bias, layer.rows);
}

/// Rows [rows, inputs] of a trap; magnitudes and signs depend on the key alone, not on gamma.
Tensor trap_rows(const FirstLayer& layer, const Trap& trap, uint64_t key) {
  Tensor out = at::empty({layer.rows, layer.inputs}, at::kFloat);
  for (int64_t row = 0; row < layer.rows; ++row) {
    Rng rng(derive(key, row));
    float* values = out.data_ptr<float>() + row * layer.inputs;
    for (int64_t i = 0; i < layer.inputs; ++i)
      values[i] = static_cast<float>(trap.s * std::abs(rng.normal()));
    for (const int64_t i : rng.sample(layer.inputs, layer.inputs / 2))
      values[i] *= static_cast<float>(-trap.gamma);
  }
  return out;
}

}  // namespace

std::optional<FirstLayer> first_layer(const Layout& layout) {
  const auto& slices = layout.slices();
  if (slices.size() < 2 || slices[0].shape.size() != 2 || slices[1].shape.size() != 1) return {};
  if (slices[0].block() != slices[1].block() || slices[1].shape[0] != slices[0].shape[0]) return {};
  if (!slices[0].name.ends_with(".weight") || !slices[1].name.ends_with(".bias")) return {};
  return FirstLayer{layout.offset(0), layout.offset(1), slices[0].shape[0], slices[0].shape[1]};
}

Tensor gradient_of_step(const Tensor& before, const Tensor& after, double lr) {
  return (before.to(at::kDouble) - after.to(at::kDouble)).div_(lr).to(before.scalar_type());
}

std::optional<Tensor> extract_sample(const FirstLayer& layer, const Tensor& gradient) {
  const auto bias = bias_of(layer, gradient).to(at::kDouble);
  const auto row = bias.abs().argmax().item<int64_t>();
  if (!(bias[row].abs().item<double>() >= kFeltNothing)) return {};
  return weight_of(layer, gradient)[row].to(at::kDouble).div_(bias[row]).to(at::kFloat);
}

Tensor extract_rows(const FirstLayer& layer, const Tensor& gradient) {
  const auto bias = bias_of(layer, gradient).to(at::kDouble);
  const auto felt = at::nonzero(bias.abs() >= kFeltNothing).flatten();
  const auto rows = weight_of(layer, gradient).index_select(0, felt).to(at::kDouble);
  return rows.div_(bias.index_select(0, felt).unsqueeze(1)).to(at::kFloat);
}

Tensor extract_pictures(const FirstLayer& layer, const Tensor& gradient,
                        const std::vector<int64_t>& sample, const PixelScale& scale, double slack) {
  auto rows = extract_rows(layer, gradient);
  std::vector<int64_t> shape{rows.size(0)};
  shape.insert(shape.end(), sample.begin(), sample.end());
  const auto pixels = scale.to_pixels(rows.view(shape));
  const auto flat = pixels.flatten(1);
  // Not by min and max, which an empty tensor has none of.
  const auto inside = (flat >= -slack).logical_and(flat <= 1 + slack).all(1);
  return pixels.index_select(0, at::nonzero(inside).flatten()).clamp(0, 1);
}

Tensor with_trap(const FirstLayer& layer, const Tensor& w, const Trap& trap, uint64_t key) {
  auto out = w.clone();
  weight_of(layer, out).copy_(trap_rows(layer, trap, key));
  bias_of(layer, out).zero_();
  return out;
}

double trap_gamma(const FirstLayer& layer, const Tensor& inputs, int64_t batch, uint64_t key) {
  const auto flat = inputs.flatten(1).to(at::kFloat);
  const auto fires = [&](double gamma) {
    const auto units = flat.matmul(trap_rows(layer, {1.0, gamma}, key).t());
    return (units > 0).to(at::kDouble).mean().item<double>();
  };
  double low = 1, high = 2;
  for (int step = 0; step < 20; ++step) {
    const double middle = (low + high) / 2;
    (fires(middle) > 1.0 / static_cast<double>(batch) ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace tessera

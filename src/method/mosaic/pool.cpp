#include "method/mosaic/pool.hpp"

#include <ATen/ATen.h>

#include <algorithm>

namespace tessera {
namespace {

constexpr int64_t kTemperatures = 25;

/// −sum over samples of the label's log-probability; log_shares [..., n, classes].
Tensor label_losses(const Tensor& log_shares, const Tensor& y) {
  auto shape = log_shares.sizes().vec();
  shape.back() = 1;
  const auto at = y.view({-1, 1}).expand(shape);
  return -log_shares.gather(-1, at).squeeze(-1).sum(-1);
}

}  // namespace

Tensor tried_temperatures() {
  constexpr int64_t kMiddle = kTemperatures / 2;
  return at::pow(2.0, (at::arange(kTemperatures, at::kDouble) - kMiddle) / 3);
}

Tensor expert_log_shares(const Tensor& logits, const Tensor& temperature) {
  constexpr double kUniform = 1e-6;
  const auto z = logits.to(at::kDouble) / temperature.to(at::kDouble).view({-1, 1, 1});
  const auto even = kUniform / static_cast<double>(logits.size(-1));
  return (at::softmax(z, -1) * (1 - kUniform) + even).log();
}

Tensor pooled_log_shares(const Tensor& log_shares, const Tensor& beta) {
  return at::log_softmax((log_shares * beta.view({-1, 1, 1})).sum(0), 1);
}

Tensor without_missing(const Tensor& beta, const Tensor& there) {
  constexpr double kLeast = 1e-3;
  const double all = beta.sum().item<double>();
  const auto rest = beta * there;
  const double left = rest.sum().item<double>();
  if (left > kLeast && all > kLeast) return rest * (all / left);
  const auto mask = there.to(at::kDouble);
  return mask / mask.sum();
}

Tensor temperature_losses(const Tensor& logits, const Tensor& y) {
  const auto temperatures = tried_temperatures();
  std::vector<Tensor> out;
  for (int64_t i = 0; i < kTemperatures; ++i)
    out.push_back(
        label_losses(expert_log_shares(logits, temperatures[i].expand({logits.size(0)})), y));
  return at::stack(out, 1);
}

Tensor best_temperatures(const Tensor& losses) {
  const auto temperatures = tried_temperatures();
  auto out = at::ones({losses.size(0)}, at::kDouble);
  for (int64_t e = 0; e < losses.size(0); ++e) {
    const auto row = losses[e];
    const int64_t best = row.argmin().item<int64_t>();
    if (row[best].item<double>() < row[kTemperatures / 2].item<double>())
      out[e] = temperatures[best];
  }
  return out;
}

PoolSlope pool_slope(const Tensor& log_shares, const Tensor& y, const Tensor& beta) {
  const auto pool = pooled_log_shares(log_shares, beta);
  const auto p = pool.exp();                  // [n, classes]
  const auto mean = (log_shares * p).sum(2);  // [experts, n]: what the pool expects of each
  const auto apart = log_shares - mean.unsqueeze(2);
  const auto weighted = (apart * p).flatten(1);
  return {label_losses(pool, y).item<double>(), mean.sum(1) + label_losses(log_shares, y),
          weighted.mm(apart.flatten(1).t())};
}

PoolFit first_fit(int64_t experts) {
  return {at::full({experts}, 1.0 / static_cast<double>(experts), at::kDouble),
          at::zeros({experts, experts}, at::kDouble), at::zeros({experts}, at::kDouble)};
}

// The sums say that near beta the loss is ½ b' H b − (H beta − gradient)' b + a constant. Such
// models of several cohorts can be added; the ridge is one more.
PoolFit newton_step(const PoolFit& fit, const PoolSlope& slope, double memory) {
  constexpr double kLongest = 1;
  const int64_t experts = fit.beta.size(0);
  const auto curvature = memory * fit.curvature + (slope.hessian + slope.hessian.t()) / 2;
  const auto pull = memory * fit.pull + slope.hessian.mv(fit.beta) - slope.gradient;
  const auto target = at::linalg_solve(curvature + at::eye(experts, at::kDouble),
                                       pull + 1.0 / static_cast<double>(experts));
  const auto step = target - fit.beta;
  const double length = step.norm().item<double>();
  const double part = length > kLongest ? kLongest / length : 1;
  return {fit.beta + part * step, curvature, pull};
}

Tensor best_beta(const Tensor& log_shares, const Tensor& y) {
  constexpr int kSteps = 30;  // each at most 1 long; ten are enough as a rule
  auto fit = first_fit(log_shares.size(0));
  for (int i = 0; i < kSteps; ++i) fit = newton_step(fit, pool_slope(log_shares, y, fit.beta), 0);
  return fit.beta;
}

}  // namespace tessera

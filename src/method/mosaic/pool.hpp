// A pool of experts: log p(y|x) ∝ sum_e beta_e log p_e(y|x), and how a federation fits its weights
// from sums over held-out samples (docs/methods.md §12.2).
//
// Experts' logits stand as [experts, n, classes]; everything is computed in float64.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera {

using at::Tensor;

/// The temperatures that are tried, float64 [25]: from 1/16 to 16, in the middle exactly 1.
Tensor tried_temperatures();

/// log p_e: the softmax of logits / temperature, mixed with 1e-6 of the uniform distribution, so
/// that no expert can forbid a class. `temperature` [experts]. The shape of `logits`.
Tensor expert_log_shares(const Tensor& logits, const Tensor& temperature);

/// Log-probabilities [n, classes] of the pool with weights `beta` [experts].
Tensor pooled_log_shares(const Tensor& log_shares, const Tensor& beta);

/// Weights for a pool that has only some of its experts (`there`: bool [experts], not all false):
/// the others get 0, and these are scaled to the sum that all had; equal weights where that cannot
/// be done.
Tensor without_missing(const Tensor& beta, const Tensor& there);

/// Sums over samples with labels y [n], of −log p(y|x): [experts, 25], expert by expert at each of
/// tried_temperatures().
Tensor temperature_losses(const Tensor& logits, const Tensor& y);
/// For each expert the temperature with the least loss [experts]; 1 unless another is better.
Tensor best_temperatures(const Tensor& losses);

/// The pool's loss on some samples, as sums: −log p(y|x), its gradient [experts] and Hessian
/// [experts, experts] with respect to beta. It is convex.
struct PoolSlope {
  double loss = 0;
  Tensor gradient, hessian;
};
PoolSlope pool_slope(const Tensor& log_shares, const Tensor& y, const Tensor& beta);

/// What the server knows of the weights: beta itself, and the quadratic model of the loss that
/// rounds have made of it, curvature [experts, experts] and pull [experts].
struct PoolFit {
  Tensor beta, curvature, pull;
  static void fields(auto& m, auto&& f) {
    f("beta", m.beta), f("curvature", m.curvature), f("pull", m.pull);
  }
};
/// Equal weights, nothing known.
PoolFit first_fit(int64_t experts);

/// One Newton step on the loss + ½ |beta − 1/experts|². `slope` holds sums over this round's cohort
/// at fit.beta; what earlier cohorts said counts `memory` times as much in every later round, so
/// that with memory = 1 − participation about one federation's worth of sums is in use, and with
/// everybody there it is Newton's method. No step is longer than 1.
PoolFit newton_step(const PoolFit& fit, const PoolSlope& slope, double memory);

/// Where Newton's method ends on these samples alone: weights of the least loss + ridge.
Tensor best_beta(const Tensor& log_shares, const Tensor& y);

}  // namespace tessera

// Implicit meta-gradients (iMAML, docs/methods.md §6.5): of where a proximal problem
// ends, whatever way was taken to its end.
#pragma once

#include <functional>

#include "method/meta/meta.hpp"

namespace tessera {

struct ImplicitOptions {
  double lam = 2;
  int64_t inner_steps = 16, cg_steps = 5;
  static void options(auto& o, auto&& f) {
    f(above("lam", 0, "pull of the inner problem towards its start"), o.lam);
    f(between("inner_steps", 1, 1e6, "gradient steps of the inner problem"), o.inner_steps);
    f(between("cg_steps", 1, 1e4, "conjugate-gradient steps of the meta-gradient"), o.cg_steps);
  }
};

/// Steps of rate `alpha` on L_support(phi) + lam/2 |phi − start|², round the support batches.
Weights proximal(const Objective& objective, const Weights& start, double alpha,
                 const Batches& support, const ImplicitOptions& options);

/// Derivative by the start of the query loss at the proximal problem's end; MetaGradient::alpha is
/// undefined.
MetaGradient implicit_gradient(const Objective& objective, const Weights& start, double alpha,
                               const MetaTask& task, const ImplicitOptions& options);

/// x with A x ≈ b for a symmetric positive definite A, by conjugate gradients from 0. Stops early
/// at the solution, and where A turns out not to be positive definite.
Tensor conjugate_gradients(const std::function<Tensor(const Tensor&)>& times, const Tensor& b,
                           int64_t steps);

}  // namespace tessera

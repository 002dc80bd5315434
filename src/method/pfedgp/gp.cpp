#include "method/pfedgp/gp.hpp"

#include <ATen/ATen.h>

namespace tessera {

Tensor Kernel::between(const Tensor& a, const Tensor& b) const {
  const auto squares = a.square().sum(1, true) + b.square().sum(1) - 2 * a.mm(b.t());
  return scale * (squares.clamp_min(0) * (-0.5 / (length * length))).exp();
}

Tensor Kernel::among(const Tensor& z) const {
  return between(z, z) + jitter * at::eye(z.size(0), z.options());
}

Tensor unit_rows(const Tensor& features) {
  constexpr double kTiny = 1e-24;  // keeps the derivative at 0 finite; rectified rows get there
  const auto z = features.to(at::kDouble);
  return z * (z.square().sum(1, true) + kTiny).rsqrt();
}

Classifier dirichlet_gp(const Kernel& kernel, const Tensor& z, const Tensor& y, int64_t classes) {
  constexpr double kPrior = 0.01;  // a count that every class has
  const auto counts = at::one_hot(y, classes).to(at::kDouble) + kPrior;
  const auto noise = (1 / counts + 1).log();
  const auto targets = counts.log() - noise / 2;
  const auto mean = targets.mean(0);
  // The targets of a class without samples are their mean: nothing to solve.
  const auto present = std::get<0>(at::_unique(y, /*sorted=*/true));
  const auto of_present = [&](const Tensor& each) { return each.index_select(1, present).t(); };
  const auto system = kernel.among(z) + at::diag_embed(of_present(noise));
  const auto solved = at::cholesky_solve(of_present(targets - mean).unsqueeze(2),
                                         at::linalg_cholesky(system));  // [present, n, 1]
  const auto weights =
      at::zeros({z.size(0), classes}, z.options()).index_copy(1, present, solved.squeeze(2).t());
  return [=](const Tensor& at) {
    return at::log_softmax(mean + kernel.between(at, z).mm(weights), 1);
  };
}

}  // namespace tessera

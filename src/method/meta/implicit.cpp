#include "method/meta/implicit.hpp"

#include <ATen/ATen.h>

namespace tessera {

Weights proximal(const Objective& objective, const Weights& start, double alpha,
                 const Batches& support, const ImplicitOptions& options) {
  Weights here = start.clone();
  if (support.count() == 0) return here;
  auto grad = at::empty_like(here.w);
  for (int64_t step = 0; step < options.inner_steps; ++step) {
    objective.gradient(here, support.at(step % support.count()), step, grad);
    grad.add_(here.w - start.w, options.lam);
    here.w.sub_(grad, alpha);
  }
  return here;
}

MetaGradient implicit_gradient(const Objective& objective, const Weights& start, double alpha,
                               const MetaTask& task, const ImplicitOptions& options) {
  auto end = proximal(objective, start, alpha, task.support, options);
  const Weights solution = end;
  MetaGradient out;
  Tensor slope;
  out.loss = query_gradient(objective, end, task.query, slope);
  out.buffers = end.b;
  // (I + H/lam) v; H is the mean over the support batches, each weighed by its samples.
  const auto times = [&](const Tensor& v) {
    auto image = v.clone();
    for (int64_t k = 0; k < task.support.count(); ++k) {
      const auto batch = task.support.at(k);
      const double share =
          static_cast<double>(batch.size()) / static_cast<double>(task.support.samples());
      image.add_(objective.hessian_times(solution, batch, k, v), share / options.lam);
    }
    return image;
  };
  out.w = conjugate_gradients(times, slope, options.cg_steps);
  return out;
}

Tensor conjugate_gradients(const std::function<Tensor(const Tensor&)>& times, const Tensor& b,
                           int64_t steps) {
  auto x = at::zeros_like(b), residual = b.clone(), direction = b.clone();
  double size = dot64(residual, residual);
  for (int64_t k = 0; k < steps && size > 0; ++k) {
    const auto image = times(direction);
    const double curvature = dot64(direction, image);
    if (curvature <= 0) return k == 0 ? b : x;
    x.add_(direction, size / curvature);
    residual.sub_(image, size / curvature);
    const double next = dot64(residual, residual);
    direction.mul_(next / size).add_(residual);
    size = next;
  }
  return x;
}

}  // namespace tessera

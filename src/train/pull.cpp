#include "train/pull.hpp"

#include <ATen/ATen.h>

namespace tessera {

GradientHook pull_to(Tensor centre, double strength) {
  if (strength == 0) return nullptr;
  // Written into the gradient: a penalty made of tensors that autograd does not follow, as in
  // public code, is added to the loss and changes nothing.
  return [centre = std::move(centre), strength](const Tensor& w, Tensor& g) {
    g.add_(w, strength).sub_(centre, strength);
  };
}

Status check_pull(const PullCheck& pull) {
  const double product = pull.rate * pull.strength;
  if (product < pull.limit) return ok();
  return fail(Error::kInvalid,
              "{}: {} times {} is {:g}, but training only settles below {:g}; lower one of them",
              pull.method, pull.rate_key, pull.pull_key, product, pull.limit);
}

}  // namespace tessera

#include "method/fedbn/norm_statistics.hpp"

#include <ATen/ATen.h>

#include "model/layers.hpp"

namespace tessera {

Tensor measured_statistics(const Weights& at, const Site& site) {
  constexpr int64_t kMost = 2048;
  const auto some = site.data.sample(Part::kTrain, kMost);
  if (some.size() < 2) return at.b;
  const at::NoGradGuard no_grad;
  const auto all = site.data.take(Part::kTrain, some);
  // A training pass adds a share of the batch's statistics to what is left of the old ones. From
  // nothing it gives that share alone; from (0, 1) most of the old ones would stay.
  const auto share = site.model.forward({at.w, at::zeros_like(at.b)}, all.x, {true, site.key});
  return share.buffers / kNormMomentum;
}

}  // namespace tessera

#include "train/ensemble.hpp"

#include <ATen/ATen.h>

#include <cmath>

namespace tessera {

Tensor ensemble_logits(const Model& model, std::span<const Weights> members, const Tensor& x) {
  // Summed as logarithms: a probability too small for a float still counts.
  auto sum = at::log_softmax(model.predict(members[0], x), 1);
  for (const auto& member : members.subspan(1))
    sum = at::logaddexp(sum, at::log_softmax(model.predict(member, x), 1));
  return sum - std::log(static_cast<double>(members.size()));
}

}  // namespace tessera

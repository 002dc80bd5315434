#include "model/model.hpp"

#include <ATen/ATen.h>

#include <limits>

namespace tessera {

Tensor loss_value(Loss loss, const Tensor& logits, const Tensor& y) {
  if (loss == Loss::kCrossEntropy) return at::cross_entropy_loss(logits, y);
  // -log σ(s) for the true class and -log σ(-s) = s - log σ(s) for the others.
  const Tensor others = 1 - at::one_hot(y, logits.size(1)).to(logits.scalar_type());
  return (others * logits - at::log_sigmoid(logits)).mean();
}

Tensor Model::predict(const Weights& at, const Tensor& x) const {
  const at::NoGradGuard no_grad;
  return forward(at, x, Pass{}).logits;
}

Tensor least_buffers(const Model& model) {
  constexpr double kLeastVariance = 1e-5;
  const auto& layout = model.buffers();
  auto least = at::full({layout.numel()}, -std::numeric_limits<double>::infinity(), at::kFloat);
  const auto variances =
      layout.positions([](const Slice& slice) { return slice.name.ends_with(".running_var"); });
  return least.index_fill_(0, variances, kLeastVariance);
}

}  // namespace tessera

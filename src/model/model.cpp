#include "model/model.hpp"

#include <ATen/ATen.h>

#include <limits>
#include <stdexcept>

namespace tessera {

namespace {

// The mean over all but the samples.
Tensor sample_losses(const Loss& loss, const Tensor& logits, const Tensor& y) {
  if (loss.kind == Loss::Kind::kCrossEntropy)
    return at::cross_entropy_loss(logits, y, {}, at::Reduction::None);
  const Tensor others = 1 - at::one_hot(y, logits.size(1)).to(logits.scalar_type());
  return (others * logits - at::log_sigmoid(logits)).mean(1);
}

}  // namespace

Tensor loss_value(const Loss& loss, const Tensor& logits, const Tensor& y) {
  if (y.is_floating_point()) {
    if (loss.kind != Loss::Kind::kCrossEntropy || loss.weights)
      throw std::invalid_argument("shares of classes need the plain cross-entropy");
    return -(y * at::log_softmax(logits, 1)).sum(1).mean();
  }
  if (loss.weights) {
    const auto weights = at::tensor(*loss.weights).to(logits.scalar_type()).index_select(0, y);
    return (weights * sample_losses(loss, logits, y)).mean();
  }
  if (loss.kind == Loss::Kind::kCrossEntropy) return at::cross_entropy_loss(logits, y);
  // -log σ(s) for the true class and -log σ(-s) = s - log σ(s) for the others.
  const Tensor others = 1 - at::one_hot(y, logits.size(1)).to(logits.scalar_type());
  return (others * logits - at::log_sigmoid(logits)).mean();
}

Tensor class_probabilities(Loss::Kind kind, const Tensor& logits) {
  const auto exact = logits.to(at::kDouble);
  return kind == Loss::Kind::kCrossEntropy ? at::softmax(exact, 1) : at::sigmoid(exact);
}

Tensor Model::predict(const Weights& at, const Tensor& x) const {
  const at::NoGradGuard no_grad;
  return forward(at, x, Pass{}).logits;
}

void Model::start_at(Start start) { start_ = std::make_shared<const Start>(std::move(start)); }

Weights Model::started(Weights drawn) const {
  if (!start_) return drawn;
  return {at::where(start_->given_w, start_->values.w, drawn.w),
          at::where(start_->given_b, start_->values.b, drawn.b)};
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

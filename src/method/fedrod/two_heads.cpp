#include "method/fedrod/two_heads.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "model/fill.hpp"

namespace tessera {
namespace {

constexpr int64_t kHidden = 16;
constexpr double kAbsent = -30;  // e^−30: a class that is not there costs and earns nothing

Layout source_layout(const LinearHead& shape, bool hyper) {
  const int64_t p = shape.numel();
  if (!hyper) return Layout({{"head", {p}}});
  return Layout({{"fc1.weight", {kHidden, shape.classes}},
                 {"fc1.bias", {kHidden}},
                 {"fc2.weight", {p, kHidden}},
                 {"fc2.bias", {p}}});
}

}  // namespace

PrivateHead::PrivateHead(const LinearHead& shape, bool hyper)
    : shape_(shape), hyper_(hyper), layout_(source_layout(shape, hyper)) {}

int64_t PrivateHead::numel() const { return layout_.numel(); }

Tensor PrivateHead::init(uint64_t key) const {
  std::vector<Fill> fills(layout_.slices().size());
  // The output layer starts at zero, so the first layer must not.
  if (hyper_)
    fills[0] = {Fill::Kind::kNormal, std::sqrt(2.0 / static_cast<double>(shape_.classes))};
  return drawn(layout_, fills, key);
}

Tensor PrivateHead::made_of(const Tensor& source, const Tensor& shares) const {
  if (!hyper_) return source;
  const auto parts = layout_.views(source);
  const auto hidden = at::relu(at::linear(shares, parts[0], parts[1]));
  return at::linear(hidden, parts[2], parts[3]);
}

Weights PrivateHead::added(const Weights& at, const Tensor& source, const Tensor& shares) const {
  auto w = at.w.clone();
  w.narrow(0, shape_.begin, shape_.numel()).add_(made_of(source, shares));
  return {w, at.b};
}

Tensor class_shares(const ClientData& data) {
  const auto counts = at::tensor(data.class_counts(Part::kTrain), at::kDouble);
  return (counts / std::max(counts.sum().item<double>(), 1.0)).to(at::kFloat);
}

Tensor balance(std::span<const int64_t> counts, double gamma) {
  std::vector<float> out;
  for (const int64_t n : counts)
    out.push_back(n > 0 ? static_cast<float>(gamma * std::log(static_cast<double>(n)))
                        : static_cast<float>(kAbsent));
  return at::tensor(out);
}

namespace {

/// Gradients of both losses at w = (body and G, source of P).
struct BothLosses {
  const Model& model;
  const PrivateHead& head;
  Tensor shift, shares;

  double gradient(Weights& at, const Examples& batch, uint64_t key, Tensor& grad) const {
    const int64_t d = model.layout().numel();
    auto generic_grad = grad.slice(0, 0, d), source_grad = grad.slice(0, d);
    double value = 0;
    if (by_hand(at, batch, key, generic_grad, source_grad, value)) return value;
    const auto w = at.w.slice(0, 0, d).detach().requires_grad_(true);
    const auto source = at.w.slice(0, d).detach().requires_grad_(true);
    const auto out = model.forward({w, at.b}, batch.x, {true, key});
    const auto generic = loss_value(Loss::kCrossEntropy, out.logits + shift, batch.y);
    const auto v = head.shape().logits(head.made_of(source, shares), out.features.detach());
    const auto personal = loss_value(Loss::kCrossEntropy, out.logits.detach() + v, batch.y);
    generic_grad.copy_(torch::autograd::grad({generic}, {w})[0]);
    source_grad.copy_(torch::autograd::grad({personal}, {source})[0]);
    at.b = out.buffers;
    return personal.item<double>();
  }

  /// By the model's own gradient, where it has one: the shift is a change of G's bias, and what
  /// moves P is what would move the head of the plain network with G + P.
  bool by_hand(Weights& at, const Examples& batch, uint64_t key, Tensor& generic_grad,
               Tensor& source_grad, double& value) const {
    const int64_t d = generic_grad.numel();
    auto shifted = Weights{at.w.slice(0, 0, d), at.b}.clone();
    shifted.w.slice(0, d - shift.numel()).add_(shift);
    const auto step = [&](Weights& where, Tensor& grad) {
      return model.training_gradient(where, batch.x, batch.y, Loss::kCrossEntropy, key, grad,
                                     value);
    };
    if (!step(shifted, generic_grad)) return false;
    const auto source = at.w.slice(0, d).detach();
    auto both = head.added({at.w.slice(0, 0, d), at.b}, source, shares);
    auto grad = at::empty_like(both.w);
    if (!step(both, grad)) return false;
    at.b = shifted.b;  // the heads have no part in it
    const auto learned = source.requires_grad_(true);
    const auto p = head.made_of(learned, shares);
    source_grad.copy_(
        torch::autograd::grad({p}, {learned}, {grad.slice(0, head.shape().begin)})[0]);
    return true;
  }
};

}  // namespace

TwoHeads train_two_heads(const TwoHeads& start, const PrivateHead& head, const Site& site,
                         const TrainOptions& options, double gamma) {
  const BothLosses losses{site.model, head, balance(site.data.class_counts(Part::kTrain), gamma),
                          class_shares(site.data)};
  const auto gradient = [&](Weights& at, const Examples& batch, uint64_t key, Tensor& grad) {
    return losses.gradient(at, batch, key, grad);
  };
  // One vector: every optimiser here works number by number, so this is as good as two.
  const auto trained = local_sgd({at::cat({start.weights.w, start.source}), start.weights.b}, site,
                                 options, {.gradient = gradient});
  const int64_t d = start.weights.w.numel();
  const auto& w = trained.weights.w;
  return {{w.slice(0, 0, d).clone(), trained.weights.b}, w.slice(0, d).clone(), trained.loss};
}

}  // namespace tessera

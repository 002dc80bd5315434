#include "train/head_fit.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/sequential.hpp"
#include "tensor/linear_head.hpp"
#include "tensor/split.hpp"
#include "train/derived_data.hpp"

namespace tessera {
namespace {

SgdResult on_features(const LinearHead& head, const Weights& start, const Site& site,
                      const TrainOptions& options, int64_t epochs) {
  const auto data = mapped_training(site.data, {head.width}, [&](const Tensor& x) {
    const at::NoGradGuard no_grad;
    return site.model.forward(start, x, Pass{}).features;
  });
  const Sequential top({{head.width}, {}, {{head.width, head.classes, false}}}, Init::kHe0);
  auto trained = local_sgd({start.w.slice(0, head.begin), at::empty({0})},
                           {top, data, site.round, site.key}, options, {.epochs = epochs});
  trained.weights = {at::cat({start.w.slice(0, 0, head.begin), trained.weights.w}), start.b};
  return trained;
}

}  // namespace

SgdResult fit_head(const Weights& start, const Site& site, const TrainOptions& options,
                   int64_t layers, int64_t epochs) {
  const auto& model = site.model;
  const auto head = linear_head(model.layout());
  if (layers == 1 && head) return on_features(*head, start, site, options, epochs);
  const auto loss = options.loss_on(site.data);
  const auto in_evaluation = [&](Weights& at, const Examples& batch, uint64_t, Tensor& grad) {
    double value = 0;
    if (model.value_and_grad(at, batch.x, batch.y, loss, grad, value)) return value;
    const auto w = at.w.detach().requires_grad_(true);
    const auto logits = model.forward({w, at.b}, batch.x, Pass{}).logits;
    const auto mean_loss = loss_value(loss, logits, batch.y);
    grad.copy_(torch::autograd::grad({mean_loss}, {w})[0]);
    return mean_loss.item<double>();
  };
  const Split parts(model.layout(), layers);
  Job job{.epochs = epochs, .gradient = in_evaluation, .only = parts.mask()};
  // Clipped gradients are of networks without batch norms alone, which need no evaluation mode;
  // virtual samples are no statistics to keep.
  if (options.privacy || options.transform) job.gradient = nullptr;
  return local_sgd(start, site, options, job);
}

}  // namespace tessera

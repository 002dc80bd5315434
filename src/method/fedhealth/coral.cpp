#include "method/fedhealth/coral.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

namespace tessera {

Tensor covariance(const Tensor& features) {
  const auto centred = features - features.mean(0, true);
  return centred.t().mm(centred) / static_cast<double>(features.size(0) - 1);
}

Tensor coral_loss(const Tensor& source, const Tensor& features) {
  const auto z = static_cast<double>(features.size(1));
  return (source - covariance(features)).square().sum() / (4 * z * z);
}

Tensor feature_covariance(const Model& model, const Weights& at, const ClientData& data) {
  constexpr int64_t kChunk = 256;
  const at::NoGradGuard no_grad;
  std::vector<Tensor> features;
  for (int64_t begin = 0; begin < data.train_size(); begin += kChunk) {
    const auto some = data.range(Part::kTrain, begin, std::min(begin + kChunk, data.train_size()));
    features.push_back(model.forward(at, some.x, Pass{}).features.to(at::kDouble));
  }
  return covariance(at::cat(features)).to(at::kFloat);
}

double aligned_gradient(const Model& model, Weights& at, const Examples& batch, Loss loss,
                        uint64_t key, const Tensor& source, double weight, Tensor& grad) {
  const auto w = at.w.detach().requires_grad_(true);
  const auto out = model.forward({w, at.b}, batch.x, {true, key});
  const auto mean_loss = loss_value(loss, out.logits, batch.y);
  auto total = mean_loss;
  if (batch.size() > 1) total = total + weight * coral_loss(source, out.features);
  grad.copy_(torch::autograd::grad({total}, {w})[0]);
  at.b = out.buffers;
  return mean_loss.item<double>();
}

}  // namespace tessera

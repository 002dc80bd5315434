#include "train/local_sgd.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/key.hpp"
#include "train/epochs.hpp"
#include "train/held.hpp"
#include "train/optimizer.hpp"
#include "train/sample_privacy.hpp"
#include "train/virtual_steps.hpp"

namespace tessera {

double batch_gradient(const Model& model, Weights& at, const Examples& batch, Loss loss,
                      uint64_t key, Tensor& grad) {
  double value = 0;
  if (model.training_gradient(at, batch.x, batch.y, loss, key, grad, value)) return value;
  const auto w = at.w.detach().requires_grad_(true);
  const auto out = model.forward({w, at.b}, batch.x, {true, key});
  const auto mean_loss = loss_value(loss, out.logits, batch.y);
  grad.copy_(torch::autograd::grad({mean_loss}, {w})[0]);
  at.b = out.buffers;
  return mean_loss.item<double>();
}

SgdResult local_sgd(const Weights& start, const Site& site, const TrainOptions& options,
                    const Job& job) {
  SgdResult out{start.clone()};
  EpochStream stream(site, job.part, options.batch);
  int64_t steps =
      job.epochs > 0 ? job.epochs * stream.per_epoch() : options.steps_on(site.data.size(job.part));
  if (job.max_steps > 0) steps = std::min(steps, job.max_steps);
  Optimizer optimizer(options, options.lr_at(site.round));
  auto grad = at::empty_like(out.weights.w);
  const auto held = job.only ? Held(*job.only, start.w) : Held();
  const auto loss = options.loss_on(site.data);
  std::optional<PrivateSteps> guarded;
  std::optional<VirtualSteps> virtual_steps;
  if ((options.privacy || options.transform) && job.gradient)
    throw std::logic_error("guards inside training do not go with a gradient of the method's own");
  if (options.privacy && steps > 0) guarded.emplace(site, job.part, options);
  // Features that a client computed for a stage of its own are no pictures, and never leave it.
  if (options.transform && steps > 0 && !site.data.pool->derived)
    virtual_steps.emplace(start, site, job.part, options);
  const auto next_gradient = [&]() -> double {
    if (guarded) return guarded->gradient(stream, out.weights, grad);
    if (virtual_steps) return virtual_steps->gradient(stream, out.weights, grad);
    const auto [batch, key] = stream.next();
    return job.gradient ? job.gradient(out.weights, batch, key, grad)
                        : batch_gradient(site.model, out.weights, batch, loss, key, grad);
  };
  double loss_sum = 0;
  for (; out.steps < steps; ++out.steps) {
    loss_sum += next_gradient();
    if (job.hook) job.hook(out.weights.w, grad);
    optimizer.step(out.weights.w, grad);
    held.put_back(out.weights.w);
  }
  out.loss = out.steps > 0 ? loss_sum / static_cast<double>(out.steps) : 0;
  return out;
}

FullGradient full_gradient(const Weights& at, const Site& site, Loss loss, Part part,
                           int64_t chunk) {
  FullGradient out{at::zeros_like(at.w), at.b};
  const int64_t n = site.data.size(part);
  Weights here = at;
  auto grad = at::empty_like(at.w);
  for (int64_t begin = 0; begin < n; begin += chunk) {
    const auto batch = site.data.range(part, begin, std::min(begin + chunk, n));
    const double share = static_cast<double>(batch.size()) / static_cast<double>(n);
    out.loss +=
        share * batch_gradient(site.model, here, batch, loss, derive(site.key, begin), grad);
    out.grad.add_(grad, share);
  }
  out.buffers = here.b;
  return out;
}

double part_loss(const Model& model, const Weights& at, const ClientData& data, Part part,
                 Loss loss) {
  constexpr int64_t kChunk = 256;
  const int64_t n = data.size(part);
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const auto batch = data.range(part, begin, std::min(begin + kChunk, n));
    sum += loss_value(loss, model.predict(at, batch.x), batch.y).item<double>() *
           static_cast<double>(batch.size());
  }
  return n > 0 ? sum / static_cast<double>(n) : std::nan("");
}

}  // namespace tessera

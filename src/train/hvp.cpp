#include "train/hvp.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/second_order.hpp"
#include "train/local_sgd.hpp"

namespace tessera {

Tensor hvp(const Model& model, const Weights& at, const Examples& batch, Loss loss, uint64_t key,
           const Tensor& v) {
  if (const auto* by_hand = dynamic_cast<const SecondOrder*>(&model)) {
    auto product = at::empty_like(at.w);
    if (by_hand->hessian_times(at, batch.x, batch.y, loss, v, product)) return product;
  }
  const auto w = at.w.detach().requires_grad_(true);
  const auto out = model.forward({w, at.b}, batch.x, {true, key});
  const auto mean_loss = loss_value(loss, out.logits, batch.y);
  const auto slope = torch::autograd::grad({mean_loss}, {w}, {}, true, true)[0];
  return torch::autograd::grad({slope}, {w}, {v})[0];
}

Tensor hvp_by_difference(const Model& model, const Weights& at, const Examples& batch, Loss loss,
                         uint64_t key, const Tensor& v) {
  const double delta = 1e-3 / (norm64(v) + 1e-12);
  const auto slope = [&](double step) {
    Weights moved{at.w + step * v, at.b};
    auto grad = at::empty_like(at.w);
    batch_gradient(model, moved, batch, loss, key, grad);
    return grad;
  };
  return slope(delta).sub_(slope(-delta)).div_(2 * delta);
}

}  // namespace tessera

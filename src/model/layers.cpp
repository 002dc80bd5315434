#include "model/layers.hpp"

#include <ATen/ATen.h>

#include "base/key.hpp"

namespace tessera {

BatchNorms::BatchNorms(const Layout& layout, const Tensor& b, bool train)
    : given_(b.detach()), train_(train) {
  if (layout.slices().empty()) return;
  running_ = layout.views(given_);
  if (train_) {
    for (Tensor& part : running_) part = part.clone();
  }
}

Tensor BatchNorms::apply(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor& mean = running_.at(next_);
  const Tensor& variance = running_.at(next_ + 1);
  next_ += 2;
  const bool batch = train_ && x.numel() > x.size(1);
  return at::batch_norm(x, weight, bias, mean, variance, batch, kNormMomentum, kNormEpsilon, false);
}

Tensor BatchNorms::buffers() const {
  return train_ && !running_.empty() ? at::cat(running_) : given_;
}

void draw_mask(int64_t count, double p, uint64_t key, float* mask) {
  const auto kept = static_cast<float>(1.0 / (1.0 - p));
  Rng rng(key);
  for (int64_t i = 0; i < count; ++i) mask[i] = rng.uniform() < p ? 0.0F : kept;
}

Tensor dropped(const Tensor& x, double p, uint64_t key) {
  Tensor mask = at::empty(x.sizes(), at::kFloat);
  draw_mask(mask.numel(), p, key, mask.data_ptr<float>());
  return x * mask.to(x.dtype());
}

}  // namespace tessera

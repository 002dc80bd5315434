#include "train/optimizer.hpp"

#include <ATen/ATen.h>

#include <cmath>

namespace tessera {

void Optimizer::step(Tensor& w, Tensor& g) {
  if (options_.weight_decay > 0) g.add_(w, options_.weight_decay);
  if (options_.optimizer == "adam") return adam(w, g);
  if (options_.momentum > 0) {
    if (!first_.defined())
      first_ = g.clone();
    else
      first_.mul_(options_.momentum).add_(g);
    w.sub_(first_, lr_);
  } else {
    w.sub_(g, lr_);
  }
}

void Optimizer::adam(Tensor& w, const Tensor& g) {
  constexpr double kBeta2 = 0.999, kEps = 1e-8;
  if (!first_.defined()) first_ = at::zeros_like(g), second_ = at::zeros_like(g);
  ++steps_;
  first_.mul_(beta1_).add_(g, 1 - beta1_);
  second_.mul_(kBeta2).addcmul_(g, g, 1 - kBeta2);
  const double scale1 = 1 - std::pow(beta1_, steps_), scale2 = 1 - std::pow(kBeta2, steps_);
  const auto root = second_.sqrt().div_(std::sqrt(scale2)).add_(kEps);
  w.addcdiv_(first_, root, -lr_ / scale1);
}

}  // namespace tessera

// Steps of SGD, with or without momentum, and Adam.
#pragma once

#include "tensor/weights.hpp"
#include "train/train_options.hpp"

namespace tessera {

/// One object per round and vector: momentum of another round's parameters is a silent bug.
/// Not thread-safe. Numbers as torch's SGD (no dampening) and Adam (beta1, 0.999, 1e-8).
class Optimizer {
 public:
  /// Copies the options, of which it uses optimizer, momentum and weight_decay. `lr` is that of the
  /// round, decay included, and replaces options.lr. `beta1` is Adam's alone.
  Optimizer(const TrainOptions& options, double lr, double beta1 = 0.9)
      : options_(options), lr_(lr), beta1_(beta1) {}

  /// Moves w along its gradient g in place. Both [d] of one floating type, the same in every call;
  /// g is overwritten. No autograd: w must not require a gradient.
  void step(Tensor& w, Tensor& g);
  /// From the next step on; what was remembered stays.
  void set_lr(double lr) { lr_ = lr; }

 private:
  void adam(Tensor& w, const Tensor& g);

  TrainOptions options_;
  double lr_, beta1_;
  double steps_ = 0;
  /// Moments [d]; undefined before the first step and where the optimiser needs none.
  Tensor first_, second_;
};

}  // namespace tessera

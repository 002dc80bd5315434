// Steps of SGD, with or without momentum, and Adam.
#pragma once

#include "tensor/weights.hpp"
#include "train/train_options.hpp"

namespace tessera {

/// One object per round and vector: momentum of another round's parameters is a silent bug.
class Optimizer {
 public:
  Optimizer(const TrainOptions& options, double lr) : options_(options), lr_(lr) {}

  /// Moves w along its gradient g, both of one shape; g is overwritten.
  void step(Tensor& w, Tensor& g);

 private:
  void adam(Tensor& w, const Tensor& g);

  TrainOptions options_;
  double lr_;
  double steps_ = 0;
  Tensor first_, second_;
};

}  // namespace tessera

// A network at work on one batch: what a training step and an evaluation cost, and how many
// operations they are.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/model.hpp"

namespace tessera::bench {

/// A network with data of the kind it is for.
struct Subject {
  std::string name;
  Shape shape;
  Loss loss = Loss::kCrossEntropy;
};
/// The built-in networks that are measured: pictures like MNIST's and CIFAR's, 48 hours of air
/// quality.
std::vector<Subject> subjects();
/// One of them; throws std::out_of_range for another name.
Subject subject_named(const std::string& name);

/// Multiply-adds × 2 of one sample's forward pass; pooling, activations and biases are not counted.
/// Of a Transformer as it is written: all tokens through every block, though by hand the last block
/// is computed for what the class token sees.
double forward_flops(const Model& model, const Shape& shape);

/// The network at its initial weights with one batch of random data.
struct Trial {
  std::unique_ptr<Model> model;
  Weights at;
  Tensor x, y, grad;
  Loss loss;
  double flops;  // of one forward pass over the batch; a step counts three times as many

  /// Throws where the subject's network cannot be made.
  Trial(const Subject& subject, int64_t n);

  void autograd_step();
  /// False if the network has no hand-written gradient.
  bool hand_step();
  /// By hand where that is possible.
  void step() {
    if (!hand_step()) autograd_step();
  }
  void predict() { model->predict(at, x); }
};

}  // namespace tessera::bench

// Models are functions of their weights, never their owners; see docs/concepts.md.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "tensor/layout.hpp"
#include "tensor/weights.hpp"

namespace tessera {

/// How a pass is made: `train` uses batch statistics and dropout drawn from `key`.
struct Pass {
  bool train = false;
  uint64_t key = 0;
};

struct Output {
  Tensor logits;    // [n, classes]
  Tensor features;  // [n, z]: what the last linear layer sees
  Tensor buffers;   // [d_b]: running statistics after this pass (detached); as given in eval
};

/// Cross-entropy on class indices, or the mean over classes of binary logistic losses on one-hot
/// targets (MultiLabelSoftMargin; the air-quality data's loss).
enum class Loss { kCrossEntropy, kMultiLabel };

/// Mean loss over the batch: logits [n, classes], y int64 [n]. Differentiable twice.
Tensor loss_value(Loss loss, const Tensor& logits, const Tensor& y);

/// Immutable and thread-safe: any number of clients call the same object at once.
class Model {
 public:
  virtual ~Model() = default;
  virtual const Layout& layout() const = 0;      // of Weights::w
  virtual const Layout& buffers() const = 0;     // of Weights::b; empty without BatchNorm
  virtual Weights init(uint64_t key) const = 0;  // float32
  /// x [n, …]; works in the dtype of the weights (float32, or float64 for tests) and can be
  /// differentiated twice with respect to at.w and x.
  virtual Output forward(const Weights& at, const Tensor& x, const Pass& pass) const = 0;

  /// Hand-written gradient, where a model has one: writes the flat gradient of the mean loss over
  /// the batch into `grad` [d] (every entry) and the loss into `value`. False = no such path for
  /// these arguments; the caller then differentiates `forward`. float32 only, no dropout, no BN.
  virtual bool value_and_grad(const Weights& /*at*/, const Tensor& /*x*/, const Tensor& /*y*/,
                              Loss /*loss*/, Tensor& /*grad*/, double& /*value*/) const {
    return false;
  }
  /// Logits in evaluation mode without autograd; overridden where a faster path exists.
  virtual Tensor predict(const Weights& at, const Tensor& x) const;
};

/// The least that each buffer [d_b] may be after a mix of models: 1e-5 for running variances.
Tensor least_buffers(const Model& model);

/// What a sample looks like: {1, 28, 28} images, {48, 22} sequences, {784} vectors.
struct Shape {
  std::vector<int64_t> sample;
  int64_t classes = 10;
};

enum class Init { kHe0, kTorch };

struct ModelInfo {
  std::string name;
  std::string line;  // one line for `tessera models`
  /// Error (a clear sentence) when the shape does not fit the model.
  std::function<Result<std::unique_ptr<Model>>(const Shape&, Init)> make;
};

/// The table of models, in the order they are shown.
const std::vector<ModelInfo>& models();
/// By name; an unknown one suggests the nearest.
Result<std::unique_ptr<Model>> make_model(const std::string& name, const Shape& shape,
                                          Init init = Init::kHe0);

}  // namespace tessera

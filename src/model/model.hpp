// Models are functions of their weights, never their owners; see docs/concepts.md.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "model/options.hpp"
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
  Tensor features;  // [n, z]: what the last linear layer sees; undefined without has_features()
  Tensor buffers;   // [d_b]: running statistics after this pass (detached); as given in eval
};

/// What training makes small: cross-entropy on class indices, or the mean over classes of binary
/// logistic losses on one-hot targets (MultiLabelSoftMargin; the air-quality data's loss).
struct Loss {
  enum class Kind { kCrossEntropy, kMultiLabel };
  static const Loss kCrossEntropy, kMultiLabel;

  Kind kind = Kind::kCrossEntropy;
  /// What a sample of each class counts for [classes]; null: 1. They do not change what the sum
  /// over a batch is divided by.
  std::shared_ptr<const std::vector<float>> weights = nullptr;

  float weight(int64_t label) const {
    return weights ? (*weights)[static_cast<size_t>(label)] : 1.0F;
  }
  bool operator==(const Loss&) const = default;
};
inline const Loss Loss::kCrossEntropy{Loss::Kind::kCrossEntropy};
inline const Loss Loss::kMultiLabel{Loss::Kind::kMultiLabel};

/// Mean loss over the batch: logits [n, classes], y int64 [n]; of the plain cross-entropy also
/// shares of classes [n, classes] of the logits' type, else std::invalid_argument. Differentiable
/// twice, with respect to shares, too.
Tensor loss_value(const Loss& loss, const Tensor& logits, const Tensor& y);
/// How sure a network is of each class, from its logits [n, classes]: their softmax, or with the
/// multi-label loss each class's own sigmoid. In fp64, where nearly certain classes still differ.
Tensor class_probabilities(Loss::Kind kind, const Tensor& logits);

/// What a single sample may contribute to a gradient (differential privacy).
struct Clip {
  double bound = 1;  // longest gradient of a sample; longer ones are scaled to it
  double count = 1;  // what their sum is divided by
  uint64_t key = 0;  // of dropout
};

/// Numbers to begin with instead of drawn ones: where `given_w` [d] and `given_b` [d_b] (bool) are
/// true, those of `values` (float32).
struct Start {
  Weights values;
  Tensor given_w, given_b;
};

/// Immutable and thread-safe: any number of clients call the same object at once.
class Model {
 public:
  virtual ~Model() = default;
  virtual const Layout& layout() const = 0;   // of Weights::w
  virtual const Layout& buffers() const = 0;  // of Weights::b; empty without BatchNorm
  /// float32; a function of the key, but for what start_at was given.
  virtual Weights init(uint64_t key) const = 0;
  /// x [n, …]; works in the dtype of the weights (float32, or float64 for tests) and can be
  /// differentiated twice with respect to at.w and x.
  virtual Output forward(const Weights& at, const Tensor& x, const Pass& pass) const = 0;
  /// False only for networks from elsewhere whose head is not a linear layer that ends them.
  virtual bool has_features() const { return true; }

  /// Hand-written gradient, where a model has one: writes the flat gradient of the mean loss over
  /// the batch into `grad` [d] (every entry) and the loss into `value`. False = no such path for
  /// these arguments; the caller then differentiates `forward`. float32 only, no dropout, no BN.
  virtual bool value_and_grad(const Weights& /*at*/, const Tensor& /*x*/, const Tensor& /*y*/,
                              Loss /*loss*/, Tensor& /*grad*/, double& /*value*/) const {
    return false;
  }
  /// The same of training, forward(…, {true, key}): with dropout and batch norm, after which at.b
  /// has the running values. False = no such path for these arguments, nothing changed.
  virtual bool training_gradient(Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                                 uint64_t /*key*/, Tensor& grad, double& value) const {
    return value_and_grad(at, x, y, std::move(loss), grad, value);
  }
  /// Where a model has the gradients g_i of single samples, all of a batch at once: writes
  /// Σ g_i · min(1, bound / |g_i|) / count into `grad` [d] (every entry), all |g_i| into `norms`
  /// (resized) and the mean loss into `value`. Where no g_i is longer than the bound and count is
  /// the batch's size, it is the gradient of value_and_grad or of `forward` bit for bit. False =
  /// no such path, and nothing written; no_clipping() says why. float32, at least one sample.
  virtual bool clipped_gradient(const Weights& /*at*/, const Tensor& /*x*/, const Tensor& /*y*/,
                                Loss /*loss*/, const Clip& /*clip*/, Tensor& /*grad*/,
                                std::vector<double>& /*norms*/, double& /*value*/) const {
    return false;
  }
  /// Why this model has no clipped_gradient, and what to do: "it …; use …". Empty: it has one.
  virtual std::string no_clipping() const {
    return "it has no gradients of single samples; use another one (`tessera models`)";
  }
  /// Logits in evaluation mode without autograd; overridden where a faster path exists.
  virtual Tensor predict(const Weights& at, const Tensor& x) const;

  /// From now on init() begins with these; before the model is shared.
  void start_at(Start start);

 protected:
  /// For init(): `drawn` with what start_at was given in its place.
  Weights started(Weights drawn) const;

 private:
  std::shared_ptr<const Start> start_;
};

/// The least that each buffer [d_b] may be after a mix of models: 1e-5 for running variances.
Tensor least_buffers(const Model& model);

/// What a sample looks like: {1, 28, 28} images, {48, 22} sequences, {784} vectors.
struct Shape {
  std::vector<int64_t> sample;
  int64_t classes = 10;
};

enum class Init { kHe0, kTorch };

/// A line of the table: a network by a name, as `tessera models` shows it.
struct ModelInfo {
  std::string name;
  std::string line;
  /// The keys of [model] that it looks at besides name, init, start and start_sha256.
  std::vector<std::string> keys;
  /// What it is: mlp, cnn, gru or vit with these options. Those of `keys` are taken from the user.
  ModelOptions options;
};

/// The table of models, in the order they are shown; without networks from files.
const std::vector<ModelInfo>& models();
/// By options that check_model finds nothing wrong with. kNotFound: an unknown name, with the
/// nearest. kInvalid, a clear sentence: the network does not fit the samples, and which ones do; or
/// what is wrong with the file it should come from.
Result<std::unique_ptr<Model>> make_model(const ModelOptions& options, const Shape& shape);
/// One of models() with its defaults.
Result<std::unique_ptr<Model>> make_model(const std::string& name, const Shape& shape,
                                          Init init = Init::kHe0);

}  // namespace tessera

// A network whose output is another network's weights (docs/methods.md §7.0).
//
// Embedding z → linear → layers × (ReLU, linear) → one linear output per target tensor. Since all
// outputs read the same features, they are kept as one linear of the tensors' total length.
#pragma once

#include <cstdint>

#include "tensor/layout.hpp"

namespace tessera {

struct HypernetSpec {
  int64_t embed = 32;   // numbers of an embedding
  int64_t hidden = 64;  // width
  int64_t layers = 1;   // hidden layers after the first linear one
  int64_t target = 0;   // numbers to generate
  /// Above 1: that many equal parts of the target (the depths of a Transformer) share one output
  /// layer; which of them is asked for, a learned code appended to the embedding tells.
  int64_t depths = 1;

  bool operator==(const HypernetSpec&) const = default;
};
constexpr int64_t kDepthCode = 16;

/// Numbers of the hypernetwork, embeddings apart.
int64_t hypernet_numel(const HypernetSpec& spec);

/// Immutable and thread-safe; cheap to make. Works in the dtype of phi (float64 for tests).
class Hypernet {
 public:
  /// Throws std::invalid_argument if `depths` does not divide `target`.
  explicit Hypernet(const HypernetSpec& spec);

  const HypernetSpec& spec() const { return spec_; }
  const Layout& layout() const { return layout_; }  // of phi

  /// phi such that every embedding generates nearly `first` [target], the initial weights of the
  /// target: they are the output's bias, and its weights have a standard deviation of 0.1/√hidden
  /// of `scale` [target]. Depths that share the output share the initial weights of the first.
  Tensor init(const Tensor& first, const Tensor& scale, uint64_t key) const;

  /// Weights [k, target] for embeddings z [k, embed].
  Tensor generate(const Tensor& phi, const Tensor& z) const;

  /// (dW/dphi)ᵀ delta summed over the rows, and (dW/dz)ᵀ delta for each of them [k, embed]: the
  /// gradients of Σ <W(phi, z), delta> for delta [k, target].
  struct Pull {
    Tensor phi, z;
  };
  Pull pull_back(const Tensor& phi, const Tensor& z, const Tensor& delta) const;
  /// The latter alone, at a fraction of the cost: for embeddings learned with phi frozen.
  Tensor pull_back_embedding(const Tensor& phi, const Tensor& z, const Tensor& delta) const;

 private:
  std::vector<Tensor> inputs(const std::vector<Tensor>& parts, const Tensor& z) const;
  Tensor backward(const Tensor& phi, const Tensor& z, const Tensor& delta, Tensor* grad) const;

  HypernetSpec spec_;
  Layout layout_;
  size_t first_linear_ = 0;  // slices before it: the codes of the depths
};

/// Standard deviation of each slice's numbers, at every position of the slice: [d] for w [d].
Tensor slice_scale(const Layout& layout, const Tensor& w);

}  // namespace tessera

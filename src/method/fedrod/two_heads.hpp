// One body under two linear heads: a generic one for balanced classes, a private one on top of it
// (docs/methods.md §2.6).
#pragma once

#include "tensor/linear_head.hpp"
#include "train/local_sgd.hpp"

namespace tessera {

/// Numbers of a private head P, to be added to those of the generic head: (G + P) z = G z + P z.
/// Its source, what is learned of it, is P itself, or a hypernetwork that makes P of a client's
/// class shares: classes → 16, ReLU → P.
class PrivateHead {
 public:
  PrivateHead(const LinearHead& shape, bool hyper);

  int64_t numel() const;  // of the source
  /// A source whose P is zero, whatever the shares.
  Tensor init(uint64_t key) const;
  /// P [shape.numel()] of a source, for shares [classes] that sum to 1; differentiable.
  Tensor made_of(const Tensor& source, const Tensor& shares) const;
  /// `at` with P added to its generic head: a plain model that predicts with both.
  Weights added(const Weights& at, const Tensor& source, const Tensor& shares) const;

  const LinearHead& shape() const { return shape_; }

 private:
  LinearHead shape_;
  bool hyper_;
  Layout layout_;  // of the source
};

/// n_c / n over the training samples; zeros without any.
Tensor class_shares(const ClientData& data);

/// What balanced softmax adds to the logits: gamma log n_c, and −30 where n_c = 0. [classes]
Tensor balance(std::span<const int64_t> counts, double gamma);

struct TwoHeads {
  Weights weights;  // body and generic head
  Tensor source;    // of the private head
  double loss = 0;  // mean of the private one's
};

/// local_sgd on both at once. At the same point CE(G z + balance, y) moves body and G, and
/// CE(G z + P z, y) moves the source of P alone, G z and z being constants to it.
TwoHeads train_two_heads(const TwoHeads& start, const PrivateHead& head, const Site& site,
                         const TrainOptions& options, double gamma);

}  // namespace tessera

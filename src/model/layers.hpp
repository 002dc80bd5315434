// Layers that are more than one torch call: batch norm and dropout without hidden state.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/layout.hpp"

namespace tessera {

constexpr double kNormEpsilon = 1e-5;  // added to variances
constexpr double kNormMomentum = 0.1;  // share of a batch in the running values
// Dropout behind convolutions i has this stream of a pass, plus i; linear layers have 0, 1, …
constexpr uint64_t kConvDropout = 1 << 20;

/// The batch norms of one pass, applied in the order of their buffers (mean and variance in turn).
/// Training normalises by the batch (biased variance) and moves the running values by kNormMomentum
/// towards it (unbiased variance); evaluation uses the running ones. A batch with one value per
/// channel has no variance: there training, too, uses the running values and leaves them as they
/// are.
class BatchNorms {
 public:
  /// `b` [layout.numel()] is not changed.
  BatchNorms(const Layout& layout, const Tensor& b, bool train);
  /// x [n, width] or [n, width, h, w].
  Tensor apply(const Tensor& x, const Tensor& weight, const Tensor& bias);
  /// Detached running values after the pass: `b` itself in evaluation.
  Tensor buffers() const;

 private:
  Tensor given_;
  bool train_;
  std::vector<Tensor> running_;  // copies in training
  size_t next_ = 0;
};

/// What `dropped` multiplies by, in the order of a contiguous tensor: 0 with probability p, else
/// 1 / (1−p).
void draw_mask(int64_t count, double p, uint64_t key, float* mask);

/// x with each entry zeroed with probability p and the rest divided by 1−p; the mask is a function
/// of the key and the number of entries alone. (Not "dropout": torch's would be found by its
/// argument.)
Tensor dropped(const Tensor& x, double p, uint64_t key);

}  // namespace tessera

// Data and labels replaced by others that teach a model nearly the same (pFedHT, §3.2, Algorithm 1;
// docs/methods.md §7.5): a batch X in [0, 1] with classes c becomes a virtual one (X', y') that is
// far from it, whose true classes are the least likely ones, and whose gradient is near.
//
// Resolutions where the paper contradicts itself: h is a lower bound on the distance; the entry of
// the *true* class is pulled down; gradients are compared by their difference, relative to the true
// one; batches of at least 4, because a single sample is determined by its gradient; eq. (6) is a
// diagnostic. The transformation promises nothing: who knows it can attack it.
#pragma once

#include <cstdint>
#include <optional>

#include "data/client_data.hpp"
#include "model/model.hpp"
#include "train/pixel_scale.hpp"

namespace tessera {

struct TransformOptions {
  double distance = 0.3;  // h / √P: root mean square of a pixel's change, at least
  double gradient = 0.1;  // eps: distance of the gradients, relative to the true one, at most
  double distance_weight = 1, label_weight = 0.5, gradient_weight = 10;
  int64_t iterations = 300;
  int64_t batch = 8;  // samples that are transformed together, at least; 4 or more

  static constexpr int64_t kLeastBatch = 4;
};

/// Eq. (6) for a first layer that is linear: how far the inputs must have moved for its gradients
/// to differ as they do. With the gradients Δ [m, units] of what the layer puts out for each sample
/// (of one sample: the bias's), |X' − X| ≥ 2 (|∇w' − ∇w| − |X| |Δ' − Δ|) / (2 M + |Δ' − Δ|),
/// where M bounds |Δ| and |Δ'|.
struct DistanceBound {
  double least = 0, real = 0;  // Frobenius norms over the batch, in inputs
};

struct Virtual {
  Tensor x;                            // as a network takes it, like the batch's
  Tensor y;                            // [m, classes]: shares
  double gradient_distance = 0;        // |G' − G| / |G|
  double pixel_distance = 0;           // mean over samples of |X'_n − X_n| / √P
  double label_term = 0;               // mean over samples of y' of the true class − the least y'
  double objective = 0, at_start = 0;  // J of what is returned, and of the first draw
  int64_t iterations = 0;              // until all terms were met, or all of them
  std::optional<DistanceBound> bound = std::nullopt;
};

/// Minimises J by Adam (rate 0.05) from uniform draws; the iterate with the least J whose gradient
/// has not vanished. batch.x of the network's form, batch.y int64 [m], m ≥ 4; std::invalid_argument
/// otherwise. A function of the arguments.
Virtual transformed(const Model& model, const Weights& at, const Examples& batch,
                    const PixelScale& scale, const TransformOptions& options, uint64_t key);

}  // namespace tessera

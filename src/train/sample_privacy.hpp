// Differential privacy of single samples in local training: DP-SGD (Abadi et al., CCS 2016).
//
// A step draws each of n training samples by itself with the chance q = batch / n (Poisson), clips
// every sample's gradient to a bound C and steps along
//   (Σ_i g_i · min(1, C / |g_i|) + N(0, sigma² C² I)) / batch.
// Momentum, Adam, pulls to another model and frozen coordinates work on that: they cost nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "train/epochs.hpp"

namespace tessera {

/// The gradients of one call of local_sgd. Borrows `site`. Not thread-safe.
class PrivateSteps {
 public:
  /// Throws std::invalid_argument for a model without gradients of single samples.
  PrivateSteps(const Site& site, Part part, const TrainOptions& options);

  /// Fills g [d] for the next step; returns the loss to report. Without noise there is nothing to
  /// account for: then the batches are those of `stream`, and where no gradient is longer than the
  /// bound, the numbers are those of plain training bit for bit. With noise the loss is NaN: it
  /// would tell of the samples what the noise hides.
  double gradient(EpochStream& stream, Weights& at, Tensor& g);

 private:
  /// Each with the chance q; may be none.
  std::vector<int64_t> drawn();
  double clipped(Weights& at, const Examples& batch, double count, uint64_t key, Tensor& g);

  const Site& site_;
  Part part_;
  int64_t n_;
  double expected_;  // samples of a batch
  SamplePrivacy privacy_;
  Loss loss_;
  int64_t step_ = 0;
  std::vector<double> norms_;
};

}  // namespace tessera

// How much of every other model goes into a client's mixture (FedAMP; docs/methods.md §5.1).
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

namespace tessera {

using at::Tensor;

/// Share alpha · A'(x) for models at a squared distance x, with A'(x) = exp(−x/sigma)/sigma.
struct Attraction {
  double sigma = 0;         // 0: no two models differ, and nobody gets a share
  double log_strength = 0;  // of alpha/sigma: alpha itself may be too large for a number
  double alpha() const;     // infinite where it is too large
};

/// For squared distances [n, n]. sigma 0: their median over pairs, since with a sigma of another
/// scale all shares underflow. alpha 0, or one that would give others more: that with which the
/// others' shares of the client with the most sum to 0.9.
Attraction fit_attraction(const Tensor& squared_distances, double sigma, double alpha);

/// The others' shares for squared distances [m] or [n, m]; those of a row sum to 0.9 at most. At an
/// infinite distance there is none.
Tensor attracted(const Attraction& attraction, const Tensor& squared_distances);

/// (1 − own) · softmax(sharpness · cosine) over the others, for cosines [m] or [n, m]. A cosine of
/// −infinity gives no share; a row of nothing else has none.
Tensor attended(const Tensor& cosines, double own, double sharpness);

/// Shares by distance (`exact`: FedAMP) or by cosine of the centred models (HeurFedAMP).
struct AttentionRule {
  bool exact = true;
  double sigma = 0, alpha = 0;     // by distance; 0 as in fit_attraction
  double own = 0, sharpness = 10;  // by cosine; own 0: 1 / models in the mixture
};
struct Attention {
  Tensor shares;          // float64 [n, n]; rows sum to 1, nothing is negative
  Attraction attraction;  // by distance
};
/// Among n models [d].
Attention attention_among(std::span<const Tensor> models, const AttentionRule& rule);
/// What a further model takes of these n, and last of itself; `centre` [d] is their mean.
std::vector<double> attention_of(const Tensor& one, std::span<const Tensor> models,
                                 const Tensor& centre, const Attraction& attraction,
                                 const AttentionRule& rule);

}  // namespace tessera

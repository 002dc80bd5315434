// Who works with whom, from a similarity matrix (FedACS; docs/methods.md §5.2).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

using at::Tensor;

/// The p-quantile of the pairs i < j of `similarity` [n, n], or of all its n² entries; −infinity
/// where there are none.
double similarity_threshold(const Tensor& similarity, double p, bool all_entries);

/// Weights of a mixture for the one at `self`: its similarity to each of those it works with, 0 for
/// the others. It works with itself and with everybody whose similarity reaches the threshold (less
/// 1e-7, for rounding); never with anybody whose similarity is not positive. Whoever is alone stays
/// alone; a group of fewer than `least` is filled up with the most similar, and where there are too
/// few of them nobody is in it: from a mixture of two each could compute the other's model.
/// similarity[self] must be positive.
std::vector<double> collaborators(std::span<const double> similarity, size_t self, double threshold,
                                  int64_t least);

/// The same mixture with a step of `alpha` towards it: shares that sum to 1, (1 − alpha) of it for
/// the one at `self` beside alpha times what the weights give. alpha = 1: the weights as they are.
std::vector<double> towards(std::vector<double> weights, size_t self, double alpha);

}  // namespace tessera

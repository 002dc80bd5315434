// What a client's class frequencies say before a sample is looked at (docs/methods.md §12.1).
#pragma once

#include "data/client_data.hpp"

namespace tessera {

/// Training samples of each class: float64 [classes].
Tensor class_totals(const ClientData& data);

/// log((n_c + a pi_c) / (n + a)), float64 [classes]: a client's own frequencies, drawn towards the
/// federation's shares `pi` as if it had `a` > 0 more samples. A class that nobody has counts
/// 1e-12.
Tensor log_own_shares(const Tensor& counts, const Tensor& pi, double a);

/// What to add to the logits of a model that was trained on classes with shares `pi`, float64
/// [classes]: log_own_shares − log(pi + 1e-3). The constant keeps rare classes from being raised
/// without limit.
Tensor prior_shift(const Tensor& counts, const Tensor& pi, double a);

/// The same for a model that takes all classes for equally frequent: log_own_shares with equal pi.
Tensor balanced_shift(const Tensor& counts, double a);

/// A model with `shift` [classes] added to the biases that end it.
Weights shifted(const Weights& model, const Tensor& shift);

}  // namespace tessera

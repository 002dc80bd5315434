// Running statistics of batch norms, measured instead of learned.
#pragma once

#include "train/local_sgd.hpp"

namespace tessera {

/// The buffers [d_b] that batch norms at `at.w` would have after seeing all training samples as one
/// batch: exact means and unbiased variances, nothing left of at.b. Of more than 2048 samples a
/// random 2048, to bound memory; of fewer than two, which have no variance, at.b as it is.
Tensor measured_statistics(const Weights& at, const Site& site);

}  // namespace tessera

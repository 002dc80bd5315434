// Fitting the last layers of a network on one client, everything below them frozen.
#pragma once

#include "train/local_sgd.hpp"

namespace tessera {

/// local_sgd on the last `layers` modules. What lies below keeps its weights bit for bit, the
/// network works in evaluation mode (no dropout, running statistics used and kept), and weight
/// decay reaches only what is trained. For a single linear layer the features it sees are computed
/// once, whatever the number of epochs.
SgdResult fit_head(const Weights& start, const Site& site, const TrainOptions& options,
                   int64_t layers, int64_t epochs);

}  // namespace tessera

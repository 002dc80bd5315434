// Which saved model a command line means.
#pragma once

#include "run/saved_model.hpp"

namespace tessera {

/// `run` is a run's directory, and `client` one of its clients or "global"; or `run` is a model's
/// file, and `client` is empty. `network` is the file of --model, or empty. kInvalid or kNotFound
/// say what there is.
Result<SavedModel> find_model(const std::string& run, const std::string& client,
                              const std::string& network);

}  // namespace tessera

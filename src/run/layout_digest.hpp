// What two ends of a federation compare to know that their models have the same tensors.
#pragma once

#include <string>

#include "model/model.hpp"

namespace tessera {

/// SHA-256 (hex) of names and shapes of the model's parameters and buffers, in order.
std::string layout_digest(const Model& model);

}  // namespace tessera

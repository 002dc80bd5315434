// Where training happens: a model, somebody's samples, and what the order of batches follows from.
#pragma once

#include <cstdint>

#include "data/client_data.hpp"
#include "model/model.hpp"

namespace tessera {

/// Borrowed; valid for the duration of the call.
struct Site {
  const Model& model;
  const ClientData& data;
  int64_t round;  // 1, 2, …; the learning-rate schedule depends on it
  uint64_t key;   // batch order and dropout
};

}  // namespace tessera

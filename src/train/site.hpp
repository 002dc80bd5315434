// Where training happens: a model, somebody's samples, and what the order of batches follows from.
#pragma once

#include <cstdint>

#include "data/client_data.hpp"
#include "model/model.hpp"

namespace tessera {

/// Borrowed; valid for the duration of the call. Two sites of equal key, round and data give the
/// same batches, so that training can be repeated bit for bit.
struct Site {
  const Model& model;
  /// Which part of them is used is the callee's business; only training rows unless it says so.
  const ClientData& data;
  int64_t round;  // 1, 2, …; the learning-rate schedule depends on it
  uint64_t key;   // batch order and dropout
};

}  // namespace tessera

// A part of a client's training rows that nothing is trained on for a while, to judge experts by.
#pragma once

#include <cstdint>

#include "data/client_data.hpp"

namespace tessera {

/// The same client with its training rows in two.
struct HeldRows {
  ClientData kept, held;
};

/// About `share` (0 … 1) of the training rows held, the same ones whenever the key is the same.
/// Stratified: every class gives its share to within one row. Of rows in the order of time the most
/// recent ones are held, and those that overlap with them are in neither part. At least one row is
/// kept, so of one row none is held.
HeldRows hold_rows(const ClientData& data, double share, uint64_t key);

}  // namespace tessera

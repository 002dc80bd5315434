// The key by which a server draws its cohorts where nobody else may know them.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"

namespace tessera {

/// Reads dir/draw.key, which only its owner can read, or makes it from the system's randomness. The
/// same after a restart, so that a round that was begun is taken up with the same clients.
/// kInvalid: damaged, or readable by others.
Result<uint64_t> draw_key(const std::string& dir);

}  // namespace tessera

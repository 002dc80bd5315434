// How much memory is left: to refuse what cannot fit before it is allocated.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

/// Bytes that this process may still use: what the system has available, or what the limit of its
/// control group (a container, a batch job) leaves, whichever is less. The largest int64_t where
/// neither is known. `root` is put before the system's paths, for tests.
int64_t available_memory(const std::string& root = "");

}  // namespace tessera

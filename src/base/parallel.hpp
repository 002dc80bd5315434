// Work spread over threads. Which thread does what never changes a result: see key.hpp.
#pragma once

#include <cstdint>
#include <functional>

namespace tessera {

/// Calls work(0) … work(n−1) on at most `threads` threads, each index once, handed out in order.
/// Returns when all are done. The first exception (by index) is rethrown after the others finish.
void parallel_for(int64_t n, int threads, const std::function<void(int64_t index)>& work);

}  // namespace tessera

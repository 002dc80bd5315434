// How times are taken: CPU time of this thread, medians, and a yardstick that is measured in turn
// with the work, so that a loaded machine slows both alike.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace tessera::bench {

/// The upper one of the two in the middle; of at least one value.
double median(std::vector<double> values);

/// Seconds of CPU time of this thread that one call takes, over `times` of them.
double cpu_seconds(const std::function<void()>& work, int64_t times);
/// How many calls fill about `seconds`; the first call, not counted, fills caches and buffers.
int64_t calls_in(const std::function<void()>& work, double seconds);

/// Medians, in seconds a call.
struct Paired {
  double work, yardstick;
};
/// Yardstick and work in turn for about `seconds`, three times at least.
Paired paired_for(double seconds, const std::function<void()>& work,
                  const std::function<void()>& yardstick);

/// One product of 1024×1024 float matrices by the BLAS, and how many operations that is.
void sgemm();
constexpr double kSgemmFlops = 2.0 * 1024 * 1024 * 1024;

/// memcpy of a buffer that no cache holds; kCopyBytes are read and as many written.
void copy();
constexpr double kCopyBytes = 64.0 * 1024 * 1024;

}  // namespace tessera::bench

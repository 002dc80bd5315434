// How long to wait before asking a server again that could not be reached.
#pragma once

#include <algorithm>
#include <chrono>

namespace tessera {

/// Exponential back-off with full jitter: a random time below a bound that doubles with every
/// failure. So a thousand clients whose server was restarted do not come back at once, and one that
/// is long away is not asked all the time. Not thread-safe.
class BackOff {
 public:
  using Time = std::chrono::milliseconds;
  /// Bounds after the first failure, and at most; both count as at least 1 ms.
  BackOff(Time first, Time longest)
      : first_(std::max(first, Time(1))), longest_(std::max(longest, first_)), bound_(first_) {}

  /// The next wait. `random` is uniform in [0, 1).
  Time next(double random) {
    const Time wait(static_cast<int64_t>(random * static_cast<double>(bound_.count())));
    bound_ = bound_ > longest_ / 2 ? longest_ : bound_ * 2;
    return wait;
  }
  /// It went well: the next failure is a first one.
  void reset() { bound_ = first_; }

 private:
  Time first_, longest_, bound_;
};

}  // namespace tessera

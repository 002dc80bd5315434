// What a policy says of time: hours in which a client works, and how fast it may send and receive.
// Pure: the time is told. Needs no torch.
#pragma once

#include <chrono>
#include <ctime>
#include <string>

#include "run/policy.hpp"

namespace tessera {

/// Whether new work may begin at this local time (of `local` only tm_wday, tm_hour, tm_min and
/// tm_sec count).
bool may_work(const Policy& policy, const std::tm& local);
/// How long until it may; 0 if it may now. By the clock on the wall: where that is put forward or
/// back meanwhile, the answer is an hour off, so ask again after a while. Never more than a week.
std::chrono::seconds until_work(const Policy& policy, const std::tm& local);
/// "policy.toml: when.hours has no work now; it begins on mon at 20:00, in 3 h 05 min".
std::string waiting_words(const Policy& policy, const std::tm& local);

/// Keeps transfers at a number of bytes a second, on average: after each piece it says how long to
/// wait. Up to a second's worth of bytes goes at once after a rest. Not thread-safe.
class Pace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// Bytes a second, at least 1; none: never a pause.
  explicit Pace(std::optional<int64_t> bandwidth) : bandwidth_(bandwidth) {}

  /// To be waited after `bytes` (at least 0) have been sent or received, at `now`, which never goes
  /// back.
  std::chrono::milliseconds pause_after(int64_t bytes, Time now);

 private:
  std::optional<int64_t> bandwidth_;
  std::optional<Time> paid_;  // until when the bytes so far have taken their time
};

}  // namespace tessera

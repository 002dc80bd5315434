// Which process speaks for a member. A certificate can be in two places, and two processes that
// both got work would send one member's uploads in two versions.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "base/status.hpp"

namespace tessera {

/// Who calls, as it says itself: names that no other state directory and no other process has. A
/// caller without them counts as one process.
struct CallingProcess {
  std::string state;    // of the directory with what the member remembers
  std::string process;  // of this start
};

/// Thread-safe. Times are of a steady clock.
///
/// A process that was started again with the same state takes the place of the one before, which is
/// told so if it turns out to live. One with another state has to wait until the first is gone:
/// nobody could tell which of the two states is the member's.
class Presences {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// A process that is not busy and was silent for `silence` is taken to be gone. `now` is the
  /// clock; empty: steady_clock's.
  explicit Presences(std::chrono::milliseconds silence, std::function<Time()> now = {});

  /// Whether this process may speak for the member. `busy`: the member's poll is held, or a task is
  /// out to it. kInvalid, in one sentence for people: another process does.
  Status admit(int64_t member, const CallingProcess& who, bool busy);

 private:
  struct Entry {
    CallingProcess who;
    Time seen;
    std::deque<std::string> former;  // processes whose place was taken, the latest last
  };
  const std::chrono::milliseconds silence_;
  const std::function<Time()> now_;
  std::mutex mutex_;
  std::map<int64_t, Entry> entries_;
};

}  // namespace tessera

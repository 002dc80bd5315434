// Polls of members for whom there is nothing to do yet.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "net/task_board.hpp"

namespace tessera {

/// Holds answers back until the board has something to tell or their time is over. A held poll
/// costs a map entry and no thread, so thousands can wait on two cores. Thread-safe.
///
/// The board's own poll() would wait in a thread each; it is only ever asked here for what it can
/// tell at once. Who puts something on the board says so by wake(); check() finds it in any case.
class HeldPolls {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// Told once. `kept` is fine, or says why there is no answer: another poll of the same member
  /// took its place, or the server stops. Must not call back here.
  using Answer = std::function<void(const Status& kept, const PollAnswer& answer)>;

  /// Borrows the board. `now` is the clock; empty: steady_clock's.
  HeldPolls(TaskBoard& board, int64_t most, std::function<Time()> now = {});

  /// Answers at once if there is something to tell, else holds the poll until then, at most until
  /// `until`. While `most` are held a further one is told kNothing before its time, so that neither
  /// memory nor connections grow without bound. A member has one poll: a second ends the first with
  /// kBusy, so that two programs with one identity notice each other. Gives a number for drop().
  uint64_t hold(int64_t member, Time until, Answer answer);
  /// The caller has gone: forgets its poll. True if it was still held; then it is never told.
  bool drop(int64_t member, uint64_t number);
  /// There may be something for this member.
  void wake(int64_t member);
  /// Looks at all: what the board has for them, and whose time is over.
  void check();
  /// Ends all that are held, and every further one at once, with kIo: callers try again.
  void stop();
  int64_t held() const;
  bool holds(int64_t member) const;

 private:
  struct Held {
    uint64_t number = 0;
    Time until;
    Answer answer;
  };
  /// Tells the answer if there is one or `late`. The mutex is held.
  bool settle(int64_t member, Held& held, bool late);

  TaskBoard& board_;
  const int64_t most_;
  const std::function<Time()> now_;
  mutable std::mutex mutex_;  // guards the rest; answers are told under it, in the order of events
  std::map<int64_t, Held> held_;
  uint64_t last_number_ = 0;
  bool stopped_ = false;
};

}  // namespace tessera

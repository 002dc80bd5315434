// What a member of a real federation has done so far, as far as it decides what it may be asked
// next: kept on the disk, so that neither a restart nor a server can make it do the same work twice
// in two ways.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "engine/session.hpp"
#include "engine/task.hpp"

namespace tessera {

/// Of one client. Not thread-safe: a member does one task after the other.
///
/// Rounds rise. A round is trained once, at its first attempt: the same task may come again, byte
/// for byte, as long as its round is not settled, because a client that was killed has to repeat
/// it; but not where that would tell one upload under two masks or two noises. An evaluation, and
/// an exchange of a newcomer, is repeated only byte for byte, too.
class TaskLedger {
 public:
  /// Reads the file, or begins a new one with the first task. Borrows the session. kInvalid:
  /// damaged, or of another format.
  static Result<TaskLedger> open(std::string path, const Session& session);

  /// Whether the task may come now; if so it is written down before this returns, so that its
  /// answer may leave. `ticket` is the SHA-256 of the task's bytes. kInvalid says why not; nothing
  /// has changed then.
  Status begin(const Task& task, const std::string& ticket);
  /// The server's word on a round has been carried out.
  Status settled(const Task& task);

 private:
  struct Entry {
    int64_t round = 0, attempt = 0;
    std::string ticket;
  };
  TaskLedger(std::string path, const Session& session)
      : path_(std::move(path)), session_(session) {}
  Status may_train(const Task& task, const std::string& ticket) const;
  Status write() const;

  std::string path_;
  const Session& session_;
  Entry trained_, met_, evaluated_;
  int64_t settled_ = 0, masked_ = 0;  // the last such round
};

}  // namespace tessera

// A server's state directory while it serves: whoever removes it has to be told, once.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "base/status.hpp"

namespace tessera {

/// Looks at the directory several times a second, in a thread of its own; the functions may be
/// called by any thread. Without its directory a server would go on for a while, and everything
/// that its clients send would be lost.
class StateWatch {
 public:
  /// `dir` is there and holds its lock file. `outer` is somebody else's wish to stop, which is
  /// passed on; borrowed, may be null. kIo: the directory cannot be opened.
  static Result<std::unique_ptr<StateWatch>> begin(const std::string& dir,
                                                   const std::atomic<bool>* outer);
  ~StateWatch();
  StateWatch(const StateWatch&) = delete;
  StateWatch& operator=(const StateWatch&) = delete;

  /// Set once the directory has gone, or `outer` is set. Outlived by the watch.
  const std::atomic<bool>* stop() const { return &stop_; }
  /// kIo in one sentence if the directory was removed or replaced. Looks itself.
  Status trouble() const;

 private:
  StateWatch(int fd, std::string dir, const std::atomic<bool>* outer);
  bool still_there() const;

  const int fd_;  // of the directory: as long as it is open nobody else gets its number
  const std::string dir_;
  const std::atomic<bool>* const outer_;
  std::atomic<bool> stop_ = false, gone_ = false;
  std::jthread thread_;  // last: ends first
};

}  // namespace tessera

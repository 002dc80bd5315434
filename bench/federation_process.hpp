// The server of a load test: a process of its own, watched from outside.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace tessera::bench {

/// Ends with this object, and with this process however that ends.
class ServerProcess {
 public:
  /// Standard error goes to `log`, standard output beside it.
  static Result<std::unique_ptr<ServerProcess>> start(std::vector<std::string> words,
                                                      const std::string& log);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  bool running();
  /// Fine once it has ended with code 0; the last line of the log if it ended otherwise. kBusy: it
  /// still runs after so many seconds.
  Status wait(double seconds);
  /// Resident bytes, now and at most so far; CPU seconds so far. 0 once it has ended.
  int64_t memory() const { return status_bytes("VmRSS:"); }
  int64_t peak_memory() const { return status_bytes("VmHWM:"); }
  double cpu_seconds() const;

 private:
  ServerProcess(pid_t pid, std::string log) : pid_(pid), log_(std::move(log)) {}
  int64_t status_bytes(const char* key) const;

  pid_t pid_;  // -1: has ended
  int status_ = 0;
  const std::string log_;
};

}  // namespace tessera::bench

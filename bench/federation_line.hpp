// A bad line: passes bytes on between clients and a server, and breaks now and then.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/status.hpp"

namespace tessera::bench {

/// Listens on a port of this machine. Everybody's connections are broken each time `every` further
/// bytes have passed, at most `cuts` times; callers may connect again at once.
class BadLine {
 public:
  /// `server` is "127.0.0.1:PORT".
  static Result<std::unique_ptr<BadLine>> open(const std::string& server, int64_t cuts,
                                               int64_t every);
  ~BadLine();
  BadLine(const BadLine&) = delete;
  BadLine& operator=(const BadLine&) = delete;

  const std::string& address() const { return address_; }
  /// How often it broke.
  int64_t broken() const { return broken_; }

 private:
  struct Connection {
    int caller = -1, server = -1;
    std::jthread up, down;
  };
  BadLine(int listener, int port, int64_t cuts, int64_t every);
  void accept_callers();
  void pass_on(int from, int to);
  void count(int64_t bytes);
  void break_all();

  const int listener_, port_;
  const int64_t cuts_, every_;
  std::string address_;
  std::atomic<int64_t> passed_ = 0, broken_ = 0;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;                   // guards the list
  std::list<Connection> connections_;  // those that ended stay until the end: there are few
  std::jthread acceptor_;              // last: ends first
};

}  // namespace tessera::bench

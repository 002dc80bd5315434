// The simulator's engine: tasks are function calls, spread over threads.
#pragma once

#include <atomic>
#include <functional>

#include "engine/client_host.hpp"
#include "engine/engine.hpp"

namespace tessera {

struct LocalEngineOptions {
  /// Clients that work at the same time; up to 1: all work happens on the calling thread.
  int threads = 1;
  /// Encode and decode every task and reply, so that a simulation meets what a network would.
  /// Changes no number; byte counts of replies are the same without it.
  bool through_wire = false;
  /// Set from outside: work not yet begun is answered by kInterrupted; settling still happens.
  /// Borrowed; null: cannot be stopped.
  const std::atomic<bool>* stop = nullptr;
  /// Called after each client's work (train, join, evaluate), from its thread; work that was
  /// refused does not count. May be empty.
  std::function<void()> on_client;
};

/// Used by one thread at a time. Past the deadline work not yet begun is answered by kBusy; what
/// has begun is waited for, however long.
class LocalEngine final : public Engine {
 public:
  /// Borrows the host, which must outlive the engine.
  LocalEngine(ClientHost& host, LocalEngineOptions options);
  /// At most `threads` downloads wait beside those being worked on.
  void run(const std::function<void(const Post&)>& ask, Limits limits,
           const OnReply& on_reply) override;
  /// One task on the calling thread. Thread-safe for different clients.
  Reply handle(const Task& task, const Deadline& deadline) const;

 private:
  ClientHost& host_;
  LocalEngineOptions options_;
};

}  // namespace tessera

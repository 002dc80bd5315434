// The simulator's engine: tasks are function calls, spread over threads.
#pragma once

#include <atomic>
#include <functional>

#include "engine/client_host.hpp"
#include "engine/engine.hpp"

namespace tessera {

struct LocalEngineOptions {
  int threads = 1;
  /// Encode and decode every task and reply, so that a simulation meets what a network would.
  bool through_wire = false;
  /// Set from outside: work not yet begun is answered by kInterrupted; settling still happens.
  const std::atomic<bool>* stop = nullptr;
  /// Called after each client's work, from its thread.
  std::function<void()> on_client;
};

class LocalEngine final : public Engine {
 public:
  /// Borrows the host.
  LocalEngine(ClientHost& host, LocalEngineOptions options);
  void run(const std::function<void(const Post&)>& ask, Deadline deadline,
           const OnReply& on_reply) override;

 private:
  Reply one(const Task& task, const Deadline& deadline) const;

  ClientHost& host_;
  LocalEngineOptions options_;
};

}  // namespace tessera

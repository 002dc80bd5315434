// The simulator's engine: clients are objects, messages are function calls, work is on threads.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "engine/client_runtime.hpp"

namespace tessera {

struct LocalEngineOptions {
  int threads = 1;
  /// Encode and decode every message, so that a simulation meets what a network would.
  bool through_wire = false;
  /// Set from outside: clients not yet begun are skipped and report kInterrupted.
  const std::atomic<bool>* stop = nullptr;
  /// Called after each client's work, from its thread.
  std::function<void()> on_client;
};

class LocalEngine final : public Engine {
 public:
  LocalEngine(std::vector<ClientRuntime> clients, LocalEngineOptions options);

  std::vector<Reply> exchange(std::vector<Outgoing> messages) override;
  void acknowledge(std::span<const ClientId> accepted) override;
  std::vector<Evaluation> evaluate(std::vector<EvalRequest> requests,
                                   const PersonalSink& sink) override;
  std::vector<std::pair<ClientId, TensorDict>> states() const override;
  void restore(ClientId client, TensorDict state) override;
  void forget(ClientId client) override;

 private:
  bool stopped() const { return options_.stop && options_.stop->load(); }
  Reply one(Outgoing message);

  mutable std::vector<ClientRuntime> clients_;  // by id; disjoint ones work at the same time
  LocalEngineOptions options_;
  std::vector<ClientId> waiting_;  // asked in the last exchange, not yet acknowledged
};

}  // namespace tessera

// Engines move messages between the server's loop and its clients; they know no method.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "eval/metrics.hpp"
#include "method/method.hpp"

namespace tessera {

/// What the server sends to a client.
struct Outgoing {
  ClientId client;
  int64_t round;
  TensorDict down;
  int64_t exchange = 0;  // > 0: of a newcomer's onboarding, before the evaluation as of `round`
};

/// What comes back: an upload, or why there is none.
struct Reply {
  ClientId client = 0;
  int64_t base_round = 0;
  TensorDict up;
  double loss = 0;                     // mean training loss
  double cpu_seconds = 0;              // of the client's work; for the simulated clock only
  int64_t wire_down = 0, wire_up = 0;  // bytes of the whole encoded messages
  Status status;
};

/// Both views of a client's model on its own data; `global` where the method has such a model.
struct Evaluation {
  ClientId client = 0;
  ClientMetrics pre_test, post_test, pre_val, post_val;
  std::optional<ClientMetrics> global_test, global_val;
  TensorDict notes;  // what the client tells of its model of the post view
  Status status;
};

/// Called with a client's model of one view while it exists; from worker threads, one client each.
using PersonalSink = std::function<Status(ClientId, View, const Personal&)>;

struct EvalRequest {
  Outgoing message;  // round: the one that would come next
  std::optional<Weights> global;
};

/// Called by one thread; the work inside may use many.
class Engine {
 public:
  virtual ~Engine() = default;
  /// One reply per message, ordered as given. Clients keep their new state uncommitted.
  virtual std::vector<Reply> exchange(std::vector<Outgoing> messages) = 0;
  /// After an exchange: these clients' uploads were accepted and they keep their new state; all
  /// others go back to the state they had, so client and server cannot disagree.
  virtual void acknowledge(std::span<const ClientId> accepted) = 0;
  virtual std::vector<Evaluation> evaluate(std::vector<EvalRequest> requests,
                                           const PersonalSink& sink) = 0;
  /// Client states, for checkpoints of a simulation. Clients that never worked have none.
  virtual std::vector<std::pair<ClientId, TensorDict>> states() const = 0;
  virtual void restore(ClientId client, TensorDict state) = 0;
  /// Back to a fresh state: a newcomer after its evaluation.
  virtual void forget(ClientId client) = 0;
};

}  // namespace tessera

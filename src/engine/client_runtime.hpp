// A client's side of the conversation: the same class in every engine.
#pragma once

#include "engine/engine.hpp"
#include "method/any_method.hpp"

namespace tessera {

/// What all clients of a run share. Borrowed; must outlive the runtimes.
struct ClientContext {
  const AnyMethod& method;
  std::string method_name;
  Setup setup;
  uint64_t seed;
  Loss loss;
};

/// Used by one thread at a time.
class ClientRuntime {
 public:
  /// `train` is what local updates see; it differs from `own` only for pooled references.
  ClientRuntime(const ClientContext& context, ClientId id, const ClientData& own,
                const ClientData& train, bool newcomer);

  /// Never throws: an error of the method becomes the reply's status, with method, round, client.
  Reply update(const Outgoing& message);
  /// Keeps the state of the last update, or forgets it.
  void acknowledge(bool accepted);
  /// Changes nothing: both views are computed from copies.
  Evaluation evaluate(const EvalRequest& request, const PersonalSink& sink);

  bool has_state() const { return state_.has_value(); }
  const TensorDict& state();
  void restore(TensorDict state) { state_ = std::move(state); }
  void forget() { state_.reset(), next_.reset(); }

 private:
  Local local(const Outgoing& message, const ClientData& data) const;

  const ClientContext& context_;
  ClientId id_;
  const ClientData& own_;
  const ClientData& train_;
  bool newcomer_;
  std::optional<TensorDict> state_, next_;
};

}  // namespace tessera

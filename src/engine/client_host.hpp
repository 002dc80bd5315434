// All there is of a client side: the same class in a thread, on a rank, in a process of its own.
#pragma once

#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/client_store.hpp"
#include "engine/session.hpp"
#include "engine/task.hpp"

namespace tessera {

/// Called with a client's model of one view at its last evaluation; from worker threads, one client
/// each.
using PersonalSink = std::function<Status(ClientId, View, const Personal&)>;

/// Data are borrowed and must outlive the host.
struct HostedClient {
  ClientId id = 0;
  const ClientData* own = nullptr;
  /// What local updates see, where that is not `own`: pooled references, and the dump of a run.
  const ClientData* train = nullptr;
};

/// One client or many. Tasks of different clients may be handled at the same time, those of one
/// client one after the other.
class ClientHost {
 public:
  /// Borrows session and store. `sink` may be null.
  ClientHost(const Session& session, ClientStore& store, std::vector<HostedClient> clients,
             PersonalSink sink = nullptr);

  /// Never throws: what goes wrong becomes the reply's status, with method, round and client.
  Reply handle(const Task& task);
  /// A settled state from a checkpoint. kInvalid says why it is none of this client's.
  Status restore(ClientId client, TensorDict state);

 private:
  using AnyStep = Step<TensorDict, TensorDict>;
  /// A step that an evaluation has computed and the coming round's training will ask for.
  struct KeptStep {
    int64_t round = 0;
    TensorDict down;
    AnyStep step;
    double cpu_seconds = 0;
  };

  const HostedClient* find(ClientId id) const;
  Reply answer(const Task& task, const HostedClient& client);
  Reply hello(const HostedClient& client) const;
  Reply train(const Task& task, const HostedClient& client);
  Reply evaluate(const Task& task, const HostedClient& client);
  Reply settle(const Task& task);
  TensorDict state_of(const HostedClient& client) const;
  Local before_training(const HostedClient& client, const Setup& setup) const;
  std::optional<KeptStep> take_kept(const Task& task);
  void keep(ClientId client, KeptStep step);
  void drop_kept(ClientId client);

  const Session& session_;
  ClientStore& store_;
  std::unordered_map<ClientId, HostedClient> clients_;
  PersonalSink sink_;
  std::mutex mutex_;  // guards kept_
  std::unordered_map<ClientId, KeptStep> kept_;
};

}  // namespace tessera

// All there is of a client side: the same class in a thread, on a rank, in a process of its own.
#pragma once

#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/client_store.hpp"
#include "engine/session.hpp"
#include "engine/task.hpp"
#include "engine/voters.hpp"
#include "guard/secure_aggregation/held_uploads.hpp"

namespace tessera {

/// A client's model of one view at its last evaluation, and how it does on the client's validation
/// and test samples. Borrowed; valid during the call.
struct ShownModel {
  ClientId client;
  View view;
  const Personal& personal;
  const ClientMetrics &val, &test;
  /// Trains those who vote for it (post view, session.voters() > 0), which takes about as long as
  /// the model itself: for those who keep them.
  std::function<Voters()> voters;
};
/// Called first with pre, then with post; from worker threads, one client each. An error becomes
/// the status of the client's reply.
using PersonalSink = std::function<Status(const ShownModel&)>;

/// Data are borrowed and must outlive the host. Those that are elsewhere are opened for the
/// duration of a task.
struct HostedClient {
  /// As in the session: 0 … everybody() − 1, each once.
  ClientId id = 0;
  /// What the client is measured on; never null.
  const ClientData* own = nullptr;
  /// What local updates see, where that is not `own`: pooled references, and the dump of a run.
  /// Null: `own`.
  const ClientData* train = nullptr;
};

/// One client or many. Tasks of different clients may be handled at the same time, those of one
/// client must come one after the other. Keeps no state of a client: that is the store's; but
/// uploads that only their sum may show are held here until it is formed.
class ClientHost {
 public:
  /// Borrows session and store, which must outlive the host. `sink` may be null.
  ClientHost(const Session& session, ClientStore& store, std::vector<HostedClient> clients,
             PersonalSink sink = nullptr);

  /// Does what the task asks for; the reply repeats its client, kind, round and attempt. Never
  /// throws: what goes wrong becomes the reply's status. kNotFound: no such client here. kInternal:
  /// the method threw; names method, round and client. Errors of the store and the sink come as
  /// they are. A new state only waits: kSettle decides. An evaluation changes no state of a client;
  /// a newcomer's is forgotten after it.
  Reply handle(const Task& task);
  /// Bytes of steps that evaluations may keep for the coming round; what does not fit is computed
  /// again. Before the first task.
  void limit_kept(int64_t bytes) { most_kept_ = bytes; }
  /// A settled state from a checkpoint. kInvalid says why it is none of this client's; errors of
  /// the store as they are.
  Status restore(ClientId client, TensorDict state);

 private:
  using AnyStep = Step<TensorDict, TensorDict>;
  /// A step that an evaluation has computed and the coming round's training will ask for. Serves
  /// once, and only the same round with the same download, byte for byte.
  struct KeptStep {
    int64_t round = 0;
    TensorDict down;
    AnyStep step;
    double cpu_seconds = 0;
    int64_t bytes() const { return payload_bytes(step.next) + payload_bytes(step.upload); }
  };

  /// A client whose data are here, whatever keeps them so.
  struct OpenClient {
    HostedClient client;
    std::shared_ptr<const ClientData> own, train;
  };

  /// Null for a client that is not here.
  const HostedClient* find(ClientId id) const;
  /// Errors of the data's source.
  static Result<OpenClient> open(const HostedClient& client);
  /// Whether a task can be answered without the client's data.
  bool needs_data(TaskKind kind) const;
  /// Throws what the method throws.
  Reply answer(const Task& task, const HostedClient& client);
  Reply hello(const HostedClient& client) const;
  Reply train(const Task& task, const HostedClient& client);
  /// The upload as it travels, and what the guard remembers as part of the next state. Where
  /// uploads are hidden it stays here, and what travels is what the server must know of it.
  Status seal(const Task& task, AnyStep& step);
  Reply guard(const Task& task);
  Reply evaluate(const Task& task, const HostedClient& client);
  Reply settle(const Task& task);
  /// The settled state, or a fresh one of a client that never trained.
  TensorDict state_of(const HostedClient& client) const;
  /// For calls that look at who the client is: round 0, no key.
  Local before_training(const HostedClient& client, const Setup& setup) const;
  /// Empties the client's place even where the step does not serve `task`.
  std::optional<KeptStep> take_kept(const Task& task);
  void keep(ClientId client, KeptStep step);
  void drop_kept(ClientId client);

  const Session& session_;
  ClientStore& store_;
  std::unordered_map<ClientId, HostedClient> clients_;
  PersonalSink sink_;
  HeldUploads held_;
  int64_t most_kept_ = INT64_MAX;
  std::mutex mutex_;  // guards the following
  std::unordered_map<ClientId, KeptStep> kept_;
  int64_t bytes_kept_ = 0;
};

}  // namespace tessera

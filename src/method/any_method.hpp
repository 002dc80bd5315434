// The same calls on named tensors: all that engines, checkpoints and the wire ever see.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/options.hpp"
#include "base/status.hpp"
#include "method/method.hpp"

namespace tessera {

/// A server's state of any method. It keeps the author's type, so that a state with one thing per
/// client is not taken apart in every call; named tensors are for checkpoints and comparisons.
class ServerState {
 public:
  virtual ~ServerState() = default;
  /// kChanged: of what there is one of per client, only what changed since saved().
  virtual TensorDict tensors(Entries entries = Entries::kAll) const = 0;
  virtual void saved() = 0;
};
using ServerStatePtr = std::unique_ptr<ServerState>;

/// Thread-safe: const calls on different clients may run at the same time. Throws what the method
/// throws, and std::invalid_argument for tensors that are not what they should be.
class AnyMethod {
 public:
  virtual ~AnyMethod() = default;
  virtual bool additive() const = 0;  // uploads are Weighted: they may be summed unseen
  virtual ServerStatePtr init_server(const Setup&) const = 0;
  /// A state from its tensors(); compared with a fresh one, then checked by the method.
  virtual ServerStatePtr restore_server(const TensorDict&, const Setup&) const = 0;
  virtual TensorDict init_client(const Local&) const = 0;
  /// The same for a client's state.
  virtual void check_client(const TensorDict& client, const Local&) const = 0;
  virtual void broadcast(const ServerState&, std::span<const Ask<TensorDict>>, const Setup&,
                         const Send<TensorDict, TensorDict>&) const = 0;
  virtual Step<TensorDict, TensorDict> local_update(const TensorDict& client,
                                                    const TensorDict& down, const Local&) const = 0;
  /// An upload as it must look in this round. Compare with require_upload.
  virtual TensorDict expected(const ServerState&, Why, const Setup&) const = 0;
  /// Throws unless `up` looks like `expected`.
  virtual void require_upload(const TensorDict& expected, const TensorDict& up) const = 0;
  /// Uploads by client; none: the state stands. Of an additive method at most one, their mean.
  virtual ServerStatePtr aggregate(ServerStatePtr, std::vector<Received<TensorDict>>,
                                   const Setup&) const = 0;
  /// Empty: the views are the models before and after local_update.
  virtual std::optional<Personal> personalize(const TensorDict& client, const TensorDict& down,
                                              const Local&, View) const = 0;
  virtual std::optional<Weights> global(const ServerState&, const Setup&) const = 0;
  virtual std::vector<Exhibit> exhibits(const ServerState&, const Evaluated&,
                                        const Setup&) const = 0;
  /// Newcomers (concept Joins); without it there are 0 exchanges.
  virtual int64_t exchanges() const = 0;
  virtual TensorDict learn(const ServerState&, const TensorDict* guest, const TensorDict& up,
                           const Setup&) const = 0;
  virtual Status check(const Setup&) const = 0;
  virtual Status check(const ClientData&) const = 0;
};

template <Method M>
class Erased final : public AnyMethod {
 public:
  using Server = typename M::Server;
  using Client = typename M::Client;
  using Down = typename M::Down;
  using Up = typename M::Up;
  using Guest = typename GuestOf<M>::type;

  explicit Erased(M method) : method_(std::move(method)) {}

  bool additive() const override { return std::is_same_v<Up, Weighted>; }
  ServerStatePtr init_server(const Setup& setup) const override {
    return std::make_unique<State>(method_.init_server(setup));
  }
  ServerStatePtr restore_server(const TensorDict& tensors, const Setup& setup) const override {
    auto server = unpack<Server>(tensors);
    // Without public data: they may be trained on, which a comparison of shapes does not need.
    Setup bare = setup;
    bare.commons = nullptr;
    require_state_form(method_.init_server(bare), server);
    if constexpr (ChecksServer<M>) require(method_.check(server, setup));
    return std::make_unique<State>(std::move(server));
  }
  TensorDict init_client(const Local& local) const override {
    return pack(method_.init_client(local));
  }
  void check_client(const TensorDict& tensors, const Local& local) const override {
    const auto client = unpack<Client>(tensors);
    require_state_form(method_.init_client(local), client);
    if constexpr (ChecksClient<M>) require(method_.check(client, local.setup));
  }
  void broadcast(const ServerState& server, std::span<const Ask<TensorDict>> asks,
                 const Setup& setup, const Send<TensorDict, TensorDict>& send) const override {
    std::vector<Guest> guests;
    guests.reserve(asks.size());  // asks point into it
    std::vector<Ask<Guest>> typed;
    for (const auto& ask : asks) {
      if (ask.guest) guests.push_back(unpack<Guest>(*ask.guest));
      typed.push_back({ask.client, ask.why, ask.guest ? &guests.back() : nullptr});
    }
    size_t next = 0;
    method_.broadcast(of(server), typed, setup, [&](const Ask<Guest>& ask, Down down) {
      if (next >= asks.size() || asks[next].client != ask.client)
        throw std::logic_error("broadcast must answer every ask once, in order");
      send(asks[next++], pack(down));
    });
    if (next != asks.size())
      throw std::logic_error("broadcast must answer every ask once, in order");
  }
  Step<TensorDict, TensorDict> local_update(const TensorDict& client, const TensorDict& down,
                                            const Local& local) const override {
    auto step = method_.local_update(unpack<Client>(client), unpack<Down>(down), local);
    return {pack(step.next),        pack(step.upload),     step.loss,
            std::move(step.before), std::move(step.after), std::move(step.notes)};
  }
  TensorDict expected(const ServerState& server, Why why, const Setup& setup) const override {
    return pack(method_.expected(of(server), why, setup));
  }
  void require_upload(const TensorDict& form, const TensorDict& up) const override {
    require_form(unpack<Up>(form), unpack<Up>(up));
  }
  ServerStatePtr aggregate(ServerStatePtr server, std::vector<Received<TensorDict>> uploads,
                           const Setup& setup) const override {
    if (uploads.empty()) return server;
    std::vector<Received<Up>> typed;
    for (auto& upload : uploads)
      typed.push_back({upload.client, unpack<Up>(std::move(upload.body))});
    auto& state = static_cast<State&>(*server);
    state.value = method_.aggregate(std::move(state.value), typed, setup);
    return server;
  }
  std::optional<Personal> personalize(const TensorDict& client, const TensorDict& down,
                                      const Local& local, View view) const override {
    if constexpr (Personalizes<M>)
      return method_.personalize(unpack<Client>(client), unpack<Down>(down), local, view);
    else
      return std::nullopt;
  }
  std::optional<Weights> global(const ServerState& server, const Setup& setup) const override {
    if constexpr (HasGlobal<M>)
      return method_.global(of(server), setup);
    else
      return std::nullopt;
  }
  std::vector<Exhibit> exhibits(const ServerState& server, const Evaluated& evaluated,
                                const Setup& setup) const override {
    if constexpr (HasExhibits<M>)
      return method_.exhibits(of(server), evaluated, setup);
    else
      return {};
  }
  int64_t exchanges() const override {
    if constexpr (Joins<M>)
      return method_.exchanges();
    else
      return 0;
  }
  TensorDict learn(const ServerState& server, const TensorDict* guest, const TensorDict& up,
                   const Setup& setup) const override {
    if constexpr (Joins<M>) {
      std::optional<Guest> before;
      if (guest) before = unpack<Guest>(*guest);
      return pack(method_.learn(of(server), before ? &*before : nullptr, unpack<Up>(up), setup));
    } else {
      throw std::logic_error("a method without exchanges learns nothing of newcomers");
    }
  }
  Status check(const Setup& setup) const override {
    if constexpr (ChecksSetup<M>)
      return method_.check(setup);
    else
      return ok();
  }
  Status check(const ClientData& data) const override {
    if constexpr (ChecksData<M>)
      return method_.check(data);
    else
      return ok();
  }

 private:
  struct State final : ServerState {
    explicit State(Server server) : value(std::move(server)) {}
    TensorDict tensors(Entries entries) const override { return pack(value, entries); }
    void saved() override { mark_saved(value); }
    Server value;
  };
  static const Server& of(const ServerState& state) {
    return static_cast<const State&>(state).value;
  }
  static void require(const Status& status) {
    if (!status.ok()) throw std::invalid_argument(message(status));
  }

  M method_;
};

/// The one bridge from an author's types to named tensors.
template <Method M>
std::unique_ptr<AnyMethod> erase(M method) {
  return std::make_unique<Erased<M>>(std::move(method));
}

/// A method being configured: its options can be set until it is built.
class MethodDraft {
 public:
  virtual ~MethodDraft() = default;
  virtual std::vector<BoundOption> options() = 0;
  virtual std::unique_ptr<AnyMethod> build(const TrainOptions& train) const = 0;
};

/// A line of the method table.
struct MethodInfo {
  std::string name;
  std::string line;            // what it does, for `tessera methods`
  std::string paper;           // who proposed it
  View headline = View::kPre;  // the view that summaries lead with
  bool pooled = false;         // trains on everybody's data at once (a reference, not a federation)
  std::function<std::unique_ptr<MethodDraft>()> draft;
};

/// How a method file presents itself. M has `TrainOptions train` and lists its own options.
template <Method M>
MethodInfo describe(MethodInfo info) {
  struct Draft final : MethodDraft {
    M method;
    std::vector<BoundOption> options() override { return bind_options(method); }
    std::unique_ptr<AnyMethod> build(const TrainOptions& train) const override {
      M ready = method;
      ready.train = train;
      return erase(std::move(ready));
    }
  };
  info.draft = [] { return std::make_unique<Draft>(); };
  return info;
}

/// All methods, in the order they are shown.
const std::vector<MethodInfo>& methods();
/// By name; an unknown one suggests the nearest.
Result<MethodInfo> find_method(const std::string& name);

}  // namespace tessera

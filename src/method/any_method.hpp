// The same calls on named tensors: all that engines, checkpoints and the wire ever see.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/key.hpp"
#include "base/options.hpp"
#include "base/status.hpp"
#include "method/method.hpp"

namespace tessera {

/// Thread-safe: const calls on different clients may run at the same time.
class AnyMethod {
 public:
  virtual ~AnyMethod() = default;
  virtual bool additive() const = 0;  // uploads may be averaged unseen (secure aggregation)
  virtual TensorDict init_server(const Setup&) const = 0;
  virtual TensorDict init_client(const Setup&, ClientId) const = 0;
  /// The state to serve these clients from (concept Convenes); without it, as it is.
  virtual TensorDict convene(const TensorDict& server, std::span<const ClientId>) const = 0;
  /// The server's own work on public data (concept Attends); without it, as it is.
  virtual TensorDict attend(TensorDict server, const Local& commons) const = 0;
  virtual TensorDict broadcast(const TensorDict& server, ClientId) const = 0;
  virtual TensorDict broadcast_eval(const TensorDict& server, ClientId) const = 0;
  virtual Step<TensorDict, TensorDict> local_update(const TensorDict& client,
                                                    const TensorDict& down, const Local&) const = 0;
  /// Uploads in any order; they are handed on by client. None: the state stands.
  virtual TensorDict aggregate(TensorDict server,
                               std::vector<Received<TensorDict>> uploads) const = 0;
  virtual Personal personalize(const TensorDict& client, const TensorDict& down, const Local&,
                               View) const = 0;
  virtual std::optional<Weights> global(const TensorDict& server) const = 0;

  /// Onboarding (concept Onboards); without it a newcomer gets what an evaluation downloads.
  virtual int64_t exchanges() const = 0;
  virtual TensorDict greet(const TensorDict& server) const = 0;
  virtual TensorDict broadcast_guest(const TensorDict& server, const TensorDict& guest,
                                     ClientId) const = 0;
  virtual TensorDict learn(const TensorDict& server, TensorDict guest, TensorDict up) const = 0;

  virtual Status check(const Setup&) const = 0;
  virtual Status check(const ClientData&) const = 0;
  virtual std::vector<Exhibit> exhibits(const TensorDict& server, const Notes&) const = 0;
};

template <Method M>
class Erased final : public AnyMethod {
 public:
  using Server = typename M::Server;
  using Client = typename M::Client;
  using Down = typename M::Down;
  using Up = typename M::Up;

  explicit Erased(M method) : method_(std::move(method)) {}

  bool additive() const override { return std::is_same_v<Up, Weighted>; }
  TensorDict init_server(const Setup& setup) const override {
    return pack(method_.init_server(setup));
  }
  TensorDict init_client(const Setup& setup, ClientId id) const override {
    return pack(method_.init_client(setup, id));
  }
  TensorDict convene(const TensorDict& server, std::span<const ClientId> clients) const override {
    if constexpr (Convenes<M>)
      return pack(method_.convene(unpack<Server>(server), clients));
    else
      return server;
  }
  TensorDict attend(TensorDict server, const Local& commons) const override {
    if constexpr (Attends<M>)
      return pack(method_.attend(unpack<Server>(std::move(server)), commons));
    else
      return server;
  }
  TensorDict broadcast(const TensorDict& server, ClientId id) const override {
    return pack(method_.broadcast(unpack<Server>(server), id));
  }
  TensorDict broadcast_eval(const TensorDict& server, ClientId id) const override {
    if constexpr (HasEvalBroadcast<M>)
      return pack(method_.broadcast_eval(unpack<Server>(server), id));
    else
      return broadcast(server, id);
  }
  Step<TensorDict, TensorDict> local_update(const TensorDict& client, const TensorDict& down,
                                            const Local& local) const override {
    const auto step = method_.local_update(unpack<Client>(client), unpack<Down>(down), local);
    return {pack(step.next), pack(step.upload), step.loss};
  }
  TensorDict aggregate(TensorDict server,
                       std::vector<Received<TensorDict>> uploads) const override {
    if (uploads.empty()) return server;
    std::sort(uploads.begin(), uploads.end(),
              [](const auto& a, const auto& b) { return a.client < b.client; });
    std::vector<Received<Up>> typed;
    for (auto& upload : uploads)
      typed.push_back({upload.client, upload.base_round, unpack<Up>(std::move(upload.body))});
    return pack(method_.aggregate(unpack<Server>(std::move(server)), typed));
  }
  Personal personalize(const TensorDict& client, const TensorDict& down, const Local& local,
                       View view) const override {
    return method_.personalize(unpack<Client>(client), unpack<Down>(down), local, view);
  }
  std::optional<Weights> global(const TensorDict& server) const override {
    if constexpr (HasGlobal<M>)
      return method_.global(unpack<Server>(server));
    else
      return std::nullopt;
  }

  int64_t exchanges() const override {
    if constexpr (Onboards<M>)
      return method_.exchanges();
    else
      return 0;
  }
  TensorDict greet(const TensorDict& server) const override {
    if constexpr (Onboards<M>)
      return pack(method_.greet(unpack<Server>(server)));
    else
      return {};
  }
  TensorDict broadcast_guest(const TensorDict& server, const TensorDict& guest,
                             ClientId id) const override {
    if constexpr (Onboards<M>)
      return pack(method_.broadcast(unpack<Server>(server), unpack<typename M::Guest>(guest)));
    else
      return broadcast_eval(server, id);
  }
  TensorDict learn(const TensorDict& server, TensorDict guest, TensorDict up) const override {
    if constexpr (Onboards<M>)
      return pack(method_.learn(unpack<Server>(server), unpack<typename M::Guest>(std::move(guest)),
                                unpack<Up>(std::move(up))));
    else
      return guest;
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
  std::vector<Exhibit> exhibits(const TensorDict& server, const Notes& notes) const override {
    if constexpr (HasExhibits<M>)
      return method_.exhibits(unpack<Server>(server), notes);
    else
      return {};
  }

 private:
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

// The same calls on named tensors: all that engines, checkpoints and the wire ever see.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/options.hpp"
#include "base/status.hpp"
#include "method/exposure.hpp"
#include "method/method.hpp"

namespace tessera {

/// A server's state of any method. It keeps the author's type, so that a state with one thing per
/// client is not taken apart in every call; named tensors are for checkpoints and comparisons.
class ServerState {
 public:
  virtual ~ServerState() = default;
  /// Names as in the author's fields(); handles, not copies. kChanged: of what there is one of per
  /// client, only what changed since saved(); everything else in full.
  virtual TensorDict tensors(Entries entries = Entries::kAll) const = 0;
  /// The state has been written down as it is: kChanged starts anew.
  virtual void saved() = 0;
};
using ServerStatePtr = std::unique_ptr<ServerState>;

/// The accepted uploads of a round.
struct Gathered {
  std::vector<ClientId> clients;    // whose they are, ascending
  std::vector<TensorDict> uploads;  // one a client; where the sum will do only that
  double count = 0;                 // what a mean was divided by; 0: how many clients there are
};

/// Thread-safe: const calls on different clients may run at the same time. Throws what the method
/// throws, and std::invalid_argument for tensors that are not what they should be. A ServerState
/// must come from this object, or from another one of the same method and options.
class AnyMethod {
 public:
  virtual ~AnyMethod() = default;
  /// What the parts of an upload mean. Shared with guards and sums that outlive the method.
  virtual std::shared_ptr<const MessageParts> parts() const = 0;
  /// Why the server needs each upload, and what to set so that it does not; empty: their sum will
  /// do.
  virtual std::string why_each() const = 0;
  bool sum_will_do() const { return why_each().empty(); }
  /// The state before round 1. May train on the setup's public data.
  virtual ServerStatePtr init_server(const Setup&) const = 0;
  /// A state from its tensors(kAll); compared with a fresh one, then checked by the method.
  virtual ServerStatePtr restore_server(const TensorDict&, const Setup&) const = 0;
  /// The state of a client that never trained: a function of the client's id, its data and the
  /// setup.
  virtual TensorDict init_client(const Local&) const = 0;
  /// The same for a client's state: throws unless it is one that this client could have.
  virtual void check_client(const TensorDict& client, const Local&) const = 0;
  /// Sends every asked client its download, once, in the order of the asks. Throws
  /// std::logic_error if the method leaves one out.
  virtual void broadcast(const ServerState&, std::span<const Ask<TensorDict>>, const Setup&,
                         const Send<TensorDict, TensorDict>&) const = 0;
  /// Changes nothing: the step's `next` is the caller's to keep or to drop.
  virtual Step<TensorDict, TensorDict> local_update(const TensorDict& client,
                                                    const TensorDict& down, const Local&) const = 0;
  /// An upload as it must look in this round: names, types and shapes; its numbers mean nothing.
  /// Compare with require_upload.
  virtual TensorDict expected(const ServerState&, Why, const Setup&) const = 0;
  /// Throws std::invalid_argument, naming the field, unless `up` looks like `expected`. Numbers are
  /// not looked at, except that a weight is finite and at least 0.
  virtual void require_upload(const TensorDict& expected, const TensorDict& up) const = 0;
  /// Whether there is such a judge, which must see every upload at the server.
  virtual bool judges() const = 0;
  /// The method's own judge of an upload that looks like `expected`: kInvalid in one sentence.
  virtual Status accept(const ServerState&, const TensorDict& up, const Setup&) const = 0;
  /// Throws std::invalid_argument, naming the field, unless `down` could be a download like
  /// `example`, which broadcast() gave: its fields, and types and shapes of those that both have.
  virtual void require_download(const TensorDict& example, const TensorDict& down) const = 0;
  /// The next state; the one before is left as it is, also after an exception. None: nobody's
  /// upload counted, and the state stands.
  virtual ServerStatePtr aggregate(const ServerState&, Gathered, const Setup&) const = 0;
  /// Empty, always or never: the views are the models before and after local_update.
  virtual std::optional<Personal> personalize(const TensorDict& client, const TensorDict& down,
                                              const Local&, View) const = 0;
  /// Empty: no single model stands for the federation.
  virtual std::optional<Weights> global(const ServerState&, const Setup&) const = 0;
  /// Empty: nothing to look at. What clients told is not to be trusted: notes of any form must do.
  virtual std::vector<Exhibit> exhibits(const ServerState&, const Evaluated&,
                                        const Setup&) const = 0;
  /// Newcomers (concept Joins); without it there are 0 exchanges.
  virtual int64_t exchanges() const = 0;
  /// What the server knows of a newcomer after one more upload. `guest` is what it knew before;
  /// null at the first exchange. std::logic_error without exchanges.
  virtual TensorDict learn(const ServerState&, const TensorDict* guest, const TensorDict& up,
                           const Setup&) const = 0;
  /// kInvalid in one sentence: why the method cannot work with this run, or with these data.
  virtual Status check(const Setup&) const = 0;
  virtual Status check(const ClientData&) const = 0;
  /// Bytes of what the server keeps of each client, once everybody has taken part; 0: nothing.
  virtual double server_bytes(const Setup&) const = 0;
  /// Steps of local SGD that an upload of a round holds, of a client with n training samples.
  virtual int64_t local_steps(int64_t n) const = 0;
  /// False: check() of data looks at nothing, so nobody has to open them for it.
  virtual bool checks_data() const = 0;
};

/// Throws std::invalid_argument if a state has something of a client that this run has not, or an
/// entry without a client's number. Newcomers leave nothing, so their ids are refused too.
void require_known_clients(const TensorDict& server, const Setup& setup);

/// What makes an AnyMethod of an author's method: dictionaries are unpacked on the way in and
/// packed on the way out, optional functions that M lacks get their defaults. As thread-safe as M's
/// const functions are. Holds its own copy of the method.
template <Method M>
class Erased final : public AnyMethod {
 public:
  using Server = typename M::Server;
  using Client = typename M::Client;
  using Down = typename M::Down;
  using Up = typename M::Up;
  using Guest = typename GuestOf<M>::type;

  explicit Erased(M method)
      : method_(std::move(method)),
        parts_(std::make_shared<const MessageParts>(parts_of<Up, Down>())) {
    static_assert(TakesSum<M> || !(detail::IsOf<Up, Mean>::value || detail::IsOf<Up, Total>::value),
                  "uploads that are a Mean or a Total arrive as one Sum: write "
                  "aggregate(Server, const Sum<Up>&, const Setup&) (docs/concepts.md)");
    if (const auto part = parts_->each(); TakesSum<M> && !part.empty())
      throw std::logic_error("aggregate() takes a Sum, but the part '" + part +
                             "' of an upload is in no Mean or Total");
  }

  std::shared_ptr<const MessageParts> parts() const override { return parts_; }
  std::string why_each() const override {
    if constexpr (TakesSum<M> && TakesEach<M>)
      return method_.why_each();
    else
      return TakesSum<M> ? "" : "its server needs each client's upload, not only their sum";
  }
  ServerStatePtr init_server(const Setup& setup) const override {
    return std::make_unique<State>(method_.init_server(setup));
  }
  // First whether names and clients are possible, then shapes, then what only the method knows.
  ServerStatePtr restore_server(const TensorDict& tensors, const Setup& setup) const override {
    auto server = unpack<Server>(tensors);
    require_known_clients(tensors, setup);
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
  // The author's send must be called as the caller expects it: a download that is left out would
  // leave a client waiting.
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
  bool judges() const override { return Accepts<M>; }
  Status accept(const ServerState& server, const TensorDict& up,
                const Setup& setup) const override {
    if constexpr (Accepts<M>)
      return method_.accept(of(server), unpack<Up>(up), setup);
    else
      return ok();
  }
  void require_download(const TensorDict& example, const TensorDict& down) const override {
    require_download_form(unpack<Down>(example), unpack<Down>(down));
  }
  // The copy shares its tensors with the state before: a model per client is not copied.
  ServerStatePtr aggregate(const ServerState& server, Gathered gathered,
                           const Setup& setup) const override {
    auto next = std::make_unique<State>(of(server));
    if (gathered.uploads.empty()) return next;
    if constexpr (TakesSum<M>) {
      if (sum_will_do()) {
        const double count =
            gathered.count > 0 ? gathered.count : static_cast<double>(gathered.clients.size());
        const Sum<Up> sum{unpack<Up>(std::move(gathered.uploads.front())),
                          std::move(gathered.clients), count};
        next->value = method_.aggregate(std::move(next->value), sum, setup);
        return next;
      }
    }
    if constexpr (TakesEach<M>) {
      std::vector<Received<Up>> typed;
      for (size_t i = 0; i < gathered.uploads.size(); ++i)
        typed.push_back({gathered.clients.at(i), unpack<Up>(std::move(gathered.uploads[i]))});
      next->value =
          method_.aggregate(std::move(next->value), std::span<const Received<Up>>(typed), setup);
    }
    return next;
  }
  // From here on: what a method may leave out.
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
  // A fresh state has an example of everything that it will have one of per client.
  double server_bytes(const Setup& setup) const override {
    if (!detail::holds_per_client<Server>()) return 0;
    Setup bare = setup;
    bare.commons = nullptr;
    return static_cast<double>(setup.clients) *
           static_cast<double>(detail::entry_bytes(method_.init_server(bare)));
  }
  bool checks_data() const override { return ChecksData<M>; }
  int64_t local_steps(int64_t n) const override {
    if constexpr (requires { method_.train.epochs; })
      return method_.train.steps_on(n);
    else
      return 0;
  }

 private:
  // The author's value as it is; tensors only when somebody asks.
  struct State final : ServerState {
    explicit State(Server server) : value(std::move(server)) {}
    TensorDict tensors(Entries entries) const override { return pack(value, entries); }
    void saved() override { mark_saved(value); }
    Server value;
  };
  // Unchecked: see AnyMethod on where a state must come from.
  static const Server& of(const ServerState& state) {
    return static_cast<const State&>(state).value;
  }
  // A sentence of the method as the exception that callers of AnyMethod expect.
  static void require(const Status& status) {
    if (!status.ok()) throw std::invalid_argument(message(status));
  }

  M method_;
  std::shared_ptr<const MessageParts> parts_;
};

/// The one bridge from an author's types to named tensors. Moves the method in.
template <Method M>
std::unique_ptr<AnyMethod> erase(M method) {
  return std::make_unique<Erased<M>>(std::move(method));
}

/// A method being configured: its options can be set until it is built. Not thread-safe.
class MethodDraft {
 public:
  virtual ~MethodDraft() = default;
  /// They point into the draft, which must outlive them. Without [train], which all methods share.
  virtual std::vector<BoundOption> options() = 0;
  /// From a copy: the draft may be changed and built again. `train` must be resolved. Whether the
  /// values fit together is seen by check(), not here.
  virtual std::unique_ptr<AnyMethod> build(const TrainOptions& train) const = 0;
};

/// A line of the method table: plain text and a factory, cheap to copy.
struct MethodInfo {
  std::string name;
  std::string line;      // what it does, for `tessera methods`: at most 59 characters
  std::string paper;     // who proposed it; "-": nobody in particular
  std::string equation;  // where in the paper: "Algorithm 1, eq. 2"; may be empty
  std::string section;   // of docs/methods.md: "1.5"; empty for methods of others
  /// What travels to and from a client in a round of training with default options, in numbers:
  /// "0", "d" (the model), "d_B" (its base, all but the last layer), "d_P" (that layer), "d_A"
  /// (attention projections), "d_BN" (batch norms), "d_G", "d_D" (generator, discriminator), "C" (a
  /// number per class), multiples, sums and differences: "2 d", "d - d_A".
  /// The conformance suite measures it.
  std::string down, up;
  Exposure exposure;           // who gets to see what of a client; measured, too
  View headline = View::kPre;  // the view that summaries lead with
  bool pooled = false;         // trains on everybody's data at once (a reference, not a federation)
  bool learns = true;          // false: a rule without training, whose rounds change nothing
  /// What guards inside local training must know. Empty: all that an upload tells of a client's
  /// samples comes from one local_sgd over its training rows, with plain gradients, and nothing is
  /// trained at evaluations that local_sgd could not do so, too. Else what there is besides, as the
  /// end of "does not go with NAME, which …". A method that says nothing is refused.
  std::string beyond_sgd =
      "does not declare that its clients only run local_sgd (MethodInfo::beyond_sgd)";
  /// Guard 'transform' holds all the same: what is trained besides gets virtual samples, too.
  bool all_virtual = false;
  /// What guard 'vote' must know. Empty: the post view is trained on the client's data when it is
  /// asked for, so that one can be made of each part of them. Else why not, as the end of "does not
  /// go with NAME, which …". The conformance suite measures it.
  std::string no_vote;
  /// A new draft with default options each time. Never empty in methods().
  std::function<std::unique_ptr<MethodDraft>()> draft;
};
/// How a method file presents itself: `info` with its draft filled in. M is default-constructible,
/// has `TrainOptions train` and lists its own options.
template <Method M>
MethodInfo describe(MethodInfo info) {
  struct Draft final : MethodDraft {
    M method;
    std::vector<BoundOption> options() override { return bind_options(method); }
    std::unique_ptr<AnyMethod> build(const TrainOptions& train) const override {
      M ready = method;
      // How many steps a round has may be an option of the method's own.
      ready.train = train, ready.train.steps = method.train.steps;
      return erase(std::move(ready));
    }
  };
  info.draft = [] { return std::make_unique<Draft>(); };
  settle_exposure(info.exposure, parts_of<typename M::Up, typename M::Down>());
  return info;
}

/// All methods, in the order they are shown, those of plugins last. Names are unique. References
/// into it hold until the next add_methods().
const std::vector<MethodInfo>& methods();
/// More lines of the table, all of them or none. kExists if a name is taken; kInvalid if it is no
/// plain name (a-z, 0-9, -, _) or there is no draft. Not thread-safe: for when a program starts.
Status add_methods(const std::vector<MethodInfo>& lines);
/// By its exact name; kNotFound for an unknown one, which suggests the nearest.
Result<MethodInfo> find_method(const std::string& name);

}  // namespace tessera

// What an author of a method writes: four value types and six const functions, one file.
//
// Principles (docs/concepts.md): state is a value that goes in and comes out; a client sees its own
// state, its download and its data; the server never sees client state; nothing of the engine.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "data/client_data.hpp"
#include "model/model.hpp"
#include "optim/local_sgd.hpp"
#include "tensor/fields.hpp"
#include "tensor/weights.hpp"

namespace tessera {

using ClientId = int64_t;

/// Fixed for a run.
struct Setup {
  const Model& model;
  int64_t clients;
  int64_t rounds;
  double participation;   // share of clients per round
  uint64_t key;           // of the common initial model: the same for server and clients
  int64_t newcomers = 0;  // held out from training
  int64_t commons = 0;    // public samples that the server has
};

/// kPre: the model as held before the local training of the coming round; kPost: after it.
enum class View { kPre, kPost };

/// A client's model: what it predicts, and its numbers when it is a single model.
struct Personal {
  std::function<Tensor(const Tensor& x)> predict;  // logits [n, classes]
  std::optional<Weights> weights;                  // saved as models/client-<id>.safetensors
  TensorDict notes = {};  // what the client tells of how it got there (attention scores), for
                          // exhibits(); those of the post view are kept
  std::shared_ptr<const Model> model = nullptr;  // of `weights`, where it is not the run's
};
/// The personal model that is plain `weights` in `model`, which must outlive it.
Personal plain(const Model& model, Weights weights);

template <class Up>
struct Received {
  ClientId client;
  int64_t base_round;  // the round whose download this answers
  Up body;
};

template <class Client, class Up>
struct Step {
  Client next;  // stored only after the server has acknowledged the upload
  Up upload;
  double loss = 0;  // mean training loss, for the report
};

/// A message or state without content.
struct Nothing {
  static void fields(auto&, auto&&) {}
};

/// Numbers of a method that people look at: stored with every evaluation, drawn in the report,
/// exported as CSV.
struct Exhibit {
  enum class Kind {
    kMatrix,  // [rows, columns]: a heat map; NaN is "no value"
    kGraph,   // [clients, clients]: who works with whom; 0 or NaN is no edge
    kPoints,  // [clients, dimensions]: drawn by the first two principal components
    kImages   // [rows, columns, height, width] in 0 … 1: a grid of small pictures
  };
  std::string name;   // "attention": key in the history, name of the CSV file
  std::string title;  // for people
  Kind kind = Kind::kMatrix;
  Tensor value;                                      // any floating type
  std::vector<std::string> rows = {}, columns = {};  // names; empty: the clients in order
};
/// What clients told at an evaluation (Personal::notes); only those that told something.
using Notes = std::map<ClientId, TensorDict>;

template <class M>
concept Method = requires(const M m, const Setup& setup, const Local& local, ClientId id, View view,
                          const typename M::Server& server, const typename M::Client& client,
                          const typename M::Down& down, typename M::Server moved,
                          std::span<const Received<typename M::Up>> uploads) {
  { m.init_server(setup) } -> std::same_as<typename M::Server>;
  { m.init_client(setup, id) } -> std::same_as<typename M::Client>;
  // Total: also for ids that never took part.
  { m.broadcast(server, id) } -> std::same_as<typename M::Down>;
  { m.local_update(client, down, local) } -> std::same_as<Step<typename M::Client, typename M::Up>>;
  // By value: a server that keeps one model per client updates it in place. Uploads are sorted by
  // client and never empty.
  { m.aggregate(std::move(moved), uploads) } -> std::same_as<typename M::Server>;
  // A newcomer is a client with a fresh state.
  { m.personalize(client, down, local, view) } -> std::same_as<Personal>;
};

/// Optional: what the server works out once the clients of a round are known (ascending), before
/// they download: the state that broadcast, greet and exhibits then get. It is thrown away after
/// that; aggregate continues from the state it was made of. An evaluation is a round of everybody.
template <class M>
concept Convenes = requires(const M m, const typename M::Server& server,
                            std::span<const ClientId> clients) {
  { m.convene(server, clients) } -> std::same_as<typename M::Server>;
};

/// Optional: what the server does with public data, the training rows of `commons`: once before the
/// first round (commons.round = 0), then after every aggregation (that round). Never without any.
template <class M>
concept Attends = requires(const M m, typename M::Server server, const Local& commons) {
  { m.attend(std::move(server), commons) } -> std::same_as<typename M::Server>;
};

/// Optional: what an evaluation downloads, where that is more than training needs.
template <class M>
concept HasEvalBroadcast = requires(const M m, const typename M::Server& server, ClientId id) {
  { m.broadcast_eval(server, id) } -> std::same_as<typename M::Down>;
};

/// Optional: the model that stands for the whole federation (X-G views, `global_accuracy`).
template <class M>
concept HasGlobal = requires(const M m, const typename M::Server& server) {
  { m.global(server) } -> std::same_as<Weights>;
};

/// Optional: newcomers that the server has to get to know. Guest is all it holds of one of them, so
/// that onboarding cannot change the federation. The newcomer answers `exchanges()` downloads
/// (broadcast to its guest) by local_update; then broadcast to its guest is what it is evaluated
/// with. exchanges() may be 0: the guest's download is then all that differs.
template <class M>
concept Onboards = requires(const M m, const typename M::Server& server, typename M::Guest guest,
                            const typename M::Up& up) {
  { m.exchanges() } -> std::same_as<int64_t>;
  { m.greet(server) } -> std::same_as<typename M::Guest>;
  { m.broadcast(server, guest) } -> std::same_as<typename M::Down>;
  { m.learn(server, guest, up) } -> std::same_as<typename M::Guest>;
};

/// Optional: whether the method can work here at all, before anything is allocated. One sentence
/// that names the method, what it needs and what to change.
template <class M>
concept ChecksSetup = requires(const M m, const Setup& setup) {
  { m.check(setup) } -> std::same_as<Status>;
};
/// Optional: whether a client's data suffice.
template <class M>
concept ChecksData = requires(const M m, const ClientData& data) {
  { m.check(data) } -> std::same_as<Status>;
};

/// Optional: what people look at after an evaluation.
template <class M>
concept HasExhibits = requires(const M m, const typename M::Server& server, const Notes& notes) {
  { m.exhibits(server, notes) } -> std::same_as<std::vector<Exhibit>>;
};

}  // namespace tessera

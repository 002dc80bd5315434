// What an author of a method writes: four value types and six const functions, in one file. Most
// methods need no more. Further functions are optional: personalize, global, exhibits, accept,
// check, and exchanges with learn for newcomers that the server has to get to know.
//
// Principles (docs/concepts.md): state is a value that goes in and comes out; a client sees its own
// state, its download and its data; the server never sees client state; nothing of the engine. What
// is the same for the whole run is in Setup and reaches every call, so no state repeats it.
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
#include "method/message.hpp"
#include "model/model.hpp"
#include "tensor/fields.hpp"
#include "tensor/per_client.hpp"
#include "tensor/weights.hpp"
#include "train/local_sgd.hpp"

namespace tessera {

/// Of the run, in every call of either half; nothing of it belongs into a state or a message.
struct Setup {
  const Model& model;
  int64_t clients;
  int64_t rounds;
  double participation;                 // share of clients per round
  uint64_t key;                         // of the common initial model: the same at both ends
  int64_t newcomers = 0;                // held out from training
  int64_t round = 0;                    // that is played or prepared: 1 … rounds; an evaluation
                                        // after round t asks as t + 1. 0: before the first
  uint64_t server_key = 0;              // the server's own randomness in this round; 0 at clients
  const ClientData* commons = nullptr;  // public data (training rows), only at the server; or null
};

/// What a client is asked for.
enum class Why {
  kTrain,
  kEvaluate,  // both views of its model; nothing is uploaded
  kJoin       // a newcomer: its exchanges, and its evaluation after them
};

/// A client that a download is due for. `guest` is what the server has learned of a newcomer so far
/// (concept Joins), else nullptr.
template <class Guest = Nothing>
struct Ask {
  ClientId client;
  Why why;
  const Guest* guest = nullptr;
};
/// Takes the download of one asked client.
template <class Down, class Guest = Nothing>
using Send = std::function<void(const Ask<Guest>&, Down)>;

/// What a client works with. Borrowed; valid for the duration of the call.
struct Local : Site {     // key: derive(seed, kLocal, round, client)
  const Setup& setup;     // of this round
  ClientId client;        // 0 … clients − 1; newcomers follow
  bool newcomer = false;  // held out from training; asks for a model of its own
  Why why = Why::kTrain;  // a client that is no newcomer sees kTrain in every local_update
};

/// How much a client's upload usually counts: its number of training samples.
inline double samples_of(const Local& local) {
  return static_cast<double>(local.data.train_size());
}

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
  Up body;
};

/// What a client made of a download.
template <class Client, class Up>
struct Step {
  Client next;  // stored only after the server has accepted the upload
  Up upload;
  double loss = 0;  // mean training loss, for the report
  /// The client's model before and after the step: its two views, unless the method has a
  /// personalize() of its own, which then leaves them out.
  std::optional<Weights> before = std::nullopt, after = std::nullopt;
  TensorDict notes = {};  // as in Personal
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
/// An evaluation, for those who show it: who was asked (clients, ascending), and what they told.
struct Evaluated {
  std::vector<ClientId> clients;
  Notes notes;
};

template <class M>
struct GuestOf {
  using type = Nothing;
};
template <class M>
requires requires { typename M::Guest; }
struct GuestOf<M> {
  using type = typename M::Guest;
};

/// aggregate() of a method whose server needs no more than the sum of uploads, wherever it was
/// formed: all of an upload's parts are inside Mean and Total then, or Open.
template <class M>
concept TakesSum = requires(const M m, typename M::Server moved, const Sum<typename M::Up>& sum,
                            const Setup& setup) {
  { m.aggregate(std::move(moved), sum, setup) } -> std::same_as<typename M::Server>;
};
/// aggregate() of one that needs each. Uploads are sorted by client and never empty.
template <class M>
concept TakesEach = requires(const M m, typename M::Server moved,
                             std::span<const Received<typename M::Up>> uploads,
                             const Setup& setup) {
  { m.aggregate(std::move(moved), uploads, setup) } -> std::same_as<typename M::Server>;
};
/// A method whose options decide has both, and says why the server needs each with these options,
/// and what to set so that it does not; empty: the sum will do.
template <class M>
concept SaysWhyEach = requires(const M m) {
  { m.why_each() } -> std::same_as<std::string>;
};

/// The required six. The types of Up's fields say what they mean (method/message.hpp).
template <class M>
concept Method = requires(const M m, const Setup& setup, const Local& local, Why why,
                          const typename M::Server& server, const typename M::Client& client,
                          const typename M::Down& down,
                          std::span<const Ask<typename GuestOf<M>::type>> asks,
                          const Send<typename M::Down, typename GuestOf<M>::type>& send) {
  { m.init_server(setup) } -> std::same_as<typename M::Server>;
  // Its key and round mean nothing; the client's data, id and the setup do.
  { m.init_client(local) } -> std::same_as<typename M::Client>;
  // Calls send(ask, download) once per ask, in order. What the asked have in common is computed
  // before that. Total: also for ids that never took part.
  { m.broadcast(server, asks, setup, send) } -> std::same_as<void>;
  { m.local_update(client, down, local) } -> std::same_as<Step<typename M::Client, typename M::Up>>;
  // An upload of setup.round as it must look (why: kTrain, or kJoin for a newcomer's): which
  // fields, shapes and types. Its numbers do not matter. Uploads that look different are
  // rejected before the server's half sees them.
  { m.expected(server, why, setup) } -> std::same_as<typename M::Up>;
  // By value: a server that keeps one model per client copies no model. Tensors of the state
  // are replaced, never written into: an exception costs the round, and the state before it
  // stands.
  requires TakesSum<M> || TakesEach<M>;
  requires !(TakesSum<M> && TakesEach<M>) || SaysWhyEach<M>;
};

/// Optional: one upload's content, before it counts; the form is right already. kInvalid in one
/// sentence costs that upload and nothing else.
template <class M>
concept Accepts = requires(const M m, const typename M::Server& server, const typename M::Up& up,
                           const Setup& setup) {
  { m.accept(server, up, setup) } -> std::same_as<Status>;
};

/// Optional: a stage of its own that makes a client's two views, where they are not the models
/// before and after local_update (Fed_T, FedBABU, Per-FedAvg).
template <class M>
concept Personalizes = requires(const M m, const typename M::Client& client,
                                const typename M::Down& down, const Local& local, View view) {
  { m.personalize(client, down, local, view) } -> std::same_as<Personal>;
};

/// Optional: the model that stands for the whole federation (X-G views, `global_accuracy`).
template <class M>
concept HasGlobal = requires(const M m, const typename M::Server& server, const Setup& setup) {
  { m.global(server, setup) } -> std::same_as<Weights>;
};

/// Optional: what people look at after an evaluation.
template <class M>
concept HasExhibits = requires(const M m, const typename M::Server& server,
                               const Evaluated& evaluated, const Setup& setup) {
  { m.exhibits(server, evaluated, setup) } -> std::same_as<std::vector<Exhibit>>;
};

/// Optional: newcomers that the server has to get to know. A newcomer answers `exchanges()`
/// downloads by local_update (why = kJoin); from each upload the server learns, and Guest is all it
/// holds of the newcomer (nullptr at first), so that nobody who joins can change the federation.
/// What broadcast() then sends to that guest is what the newcomer is evaluated with.
template <class M>
concept Joins = requires(const M m, const typename M::Server& server,
                         const typename M::Guest* guest, const typename M::Up& up,
                         const Setup& setup) {
  { m.exchanges() } -> std::same_as<int64_t>;
  { m.learn(server, guest, up, setup) } -> std::same_as<typename M::Guest>;
};

/// For check(): kInvalid where so many float64 matrices among all clients do not fit into the
/// memory that is available. What a server keeps of each client is counted by itself.
Status check_pairs(const std::string& method, const Setup& setup, int64_t matrices);

/// Optional: check(), for any of these. One sentence that names the method, what it needs and what
/// to change. Whether the method can work here at all, before anything is allocated:
template <class M>
concept ChecksSetup = requires(const M m, const Setup& setup) {
  { m.check(setup) } -> std::same_as<Status>;
};
/// whether a client's data suffice:
template <class M>
concept ChecksData = requires(const M m, const ClientData& data) {
  { m.check(data) } -> std::same_as<Status>;
};
/// and whether a restored state is one. Fields are compared with those of a fresh state before;
/// what is left is what a fresh state cannot show: optional fields it lacks, and sizes that vary.
template <class M>
concept ChecksServer = requires(const M m, const typename M::Server& server, const Setup& setup) {
  { m.check(server, setup) } -> std::same_as<Status>;
};
template <class M>
concept ChecksClient = requires(const M m, const typename M::Client& client, const Setup& setup) {
  { m.check(client, setup) } -> std::same_as<Status>;
};

}  // namespace tessera

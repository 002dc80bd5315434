// What an author of a method writes: four value types and six const functions, one file.
//
// Principles (docs/concepts.md): state is a value that goes in and comes out; a client sees its own
// state, its download and its data; the server never sees client state; nothing of the engine.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

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
  double participation;  // share of clients per round
  uint64_t key;          // of the common initial model: the same for server and clients
};

/// kPre: the model as held before the local training of the coming round; kPost: after it.
enum class View { kPre, kPost };

/// A client's model: what it predicts, and its numbers when it is a single model.
struct Personal {
  std::function<Tensor(const Tensor& x)> predict;  // logits [n, classes]
  std::optional<Weights> weights;                  // saved as models/client-<id>.safetensors
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

}  // namespace tessera

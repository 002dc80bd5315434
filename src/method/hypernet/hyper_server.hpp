// The server's half of every hypernetwork method (docs/methods.md §7.0): generate a client's
// weights, and learn from what its training made of them.
#pragma once

#include <span>
#include <string>

#include "base/options.hpp"
#include "base/status.hpp"
#include "method/method.hpp"
#include "model/hypernet.hpp"

namespace tessera {

/// A client's embedding with its momentum. Of a newcomer it is all that is learned.
struct Embedding {
  Tensor z, velocity;  // [embed]
  static void fields(auto& m, auto&& f) { f("z", m.z), f("velocity", m.velocity); }
};

/// What persists: the hypernetwork, the embeddings, and the optimiser's momentum.
struct HyperState {
  Tensor phi, phi_velocity;         // [|phi|]
  PerClient<Embedding> embeddings;  // as drawn, and at rest, before the first upload
  static void fields(auto& m, auto&& f) {
    f("phi", m.phi), f("phi_velocity", m.phi_velocity), f("embeddings", m.embeddings);
  }
};

/// What follows from the run, in every call.
struct HyperRun {
  HypernetSpec spec;
  int64_t clients = 0;
  uint64_t key = 0;  // of the initial numbers
};

/// Received minus trained weights of a client, which stand for the gradient of its loss.
struct HyperReply {
  ClientId client;
  Tensor delta;   // [target]
  double weight;  // number of training samples
};

/// Options and rules; state is passed in and out.
struct HyperServer {
  int64_t embed = 32;  // 0: 1 + N/4
  int64_t hidden = 64, layers = 1;
  double server_lr = 0.1, embed_lr = 0, momentum = 0.9, weight_decay = 1e-3, clip = 50;
  int64_t exchanges = 20;
  double new_lr = 0.1;
  std::string absent = "rest";
  /// No option: whether `clip` is over phi and embeddings together, and over a newcomer's embedding
  /// (pFedHN's code), or over phi alone (pFedHT).
  bool clip_embeddings = true;

  static void options(auto& o, auto&& f) {
    f(between("embed", 0, 1e4, "numbers of a client's embedding; 0: 1 + clients / 4"), o.embed);
    f(between("hidden", 1, 1e5, "width of the hypernetwork"), o.hidden);
    f(between("layers", 0, 100, "hidden layers of the hypernetwork"), o.layers);
    f(at_least("server_lr", 0, "learning rate of the hypernetwork; 0: it stays as it is"),
      o.server_lr);
    f(at_least("embed_lr", 0, "learning rate of the embeddings; 0: server_lr"), o.embed_lr);
    f(between("momentum", 0, 0.9999, "momentum of the server's sgd"), o.momentum);
    f(at_least("weight_decay", 0, "L2 penalty on hypernetwork and embeddings"), o.weight_decay);
    f(at_least("clip", 0, "largest norm of the server's gradient; 0: any"), o.clip);
    f(one_of("absent", {"rest", "coast"},
             "embeddings of clients that are not in a round: they stay, or momentum and penalty "
             "go on moving them"),
      o.absent);
    f(between("exchanges", 1, 1e5, "rounds in which a newcomer's embedding is learned"),
      o.exchanges);
    f(above("new_lr", 0, "learning rate of a newcomer's embedding"), o.new_lr);
  }

  /// For `depths` see HypernetSpec.
  HyperRun run(const Setup& setup, int64_t target, int64_t depths) const;
  /// Whether hypernetwork, gradient and momentum fit into `available` bytes; a sentence if not.
  Status check_memory(const std::string& method, const HyperRun& run, int64_t available) const;

  /// The hypernetwork generates about `first`, see Hypernet::init.
  HyperState init(const HyperRun& run, const Tensor& first, const Tensor& scale) const;
  /// As it is now; drawn from N(0, 1), for itself alone, if the client never took part.
  Embedding embedding(const HyperState& state, const HyperRun& run, ClientId client) const;
  /// Of all clients [N, embed].
  Tensor embeddings(const HyperState& state, const HyperRun& run) const;
  /// What a newcomer begins with: the mean of them.
  Embedding mean_embedding(const HyperState& state, const HyperRun& run) const;

  /// Weights [target] from an embedding.
  Tensor generate(const HyperState& state, const HyperRun& run, const Tensor& z) const;
  /// The same for everybody asked: from the own embedding, a guest's, or the mean.
  void generate(const HyperState& state, const HyperRun& run, std::span<const Ask<Embedding>> asks,
                const Send<Tensor, Embedding>& send) const;
  /// One step of SGD, phi in place: by all replies, weighted by their share of the samples, and the
  /// embeddings of those who replied. An absent client's embedding and its momentum rest, or
  /// (`absent` = coast) take a step with a gradient of 0.
  void step(HyperState& state, const HyperRun& run, std::span<const HyperReply> replies) const;
  /// One step of a newcomer's embedding, hypernetwork frozen; from the mean if there is none yet.
  Embedding learn(const HyperState& state, const HyperRun& run, const Embedding* guest,
                  const Tensor& delta) const;

 private:
  /// A step of SGD for clients' embeddings, rows of z, by their gradients, which are changed.
  void move(HyperState& state, const HyperRun& run, std::span<const ClientId> clients,
            Tensor& gradients) const;
};

}  // namespace tessera

// The server's half of every hypernetwork method (methods.md §7.0): generate a client's weights,
// and learn from what its training made of them.
#pragma once

#include <span>
#include <string>

#include "base/options.hpp"
#include "base/status.hpp"
#include "model/hypernet.hpp"

namespace tessera {

/// What persists: the hypernetwork, an embedding per client, and the optimiser's momentum.
struct HyperState {
  Tensor phi, phi_velocity;  // [|phi|]
  Tensor z, z_velocity;      // [N, embed]
  int64_t target = 0, depths = 1;
  static void fields(auto& m, auto&& f) {
    f("phi", m.phi), f("phi_velocity", m.phi_velocity), f("z", m.z);
    f("z_velocity", m.z_velocity), f("target", m.target), f("depths", m.depths);
  }
};

/// A newcomer's embedding: all that moves while it is being learned.
struct HyperGuest {
  Tensor z, velocity;  // [embed]
  static void fields(auto& m, auto&& f) { f("z", m.z), f("velocity", m.velocity); }
};

/// Received minus trained weights of a client, which stand for the gradient of its loss.
struct HyperReply {
  int64_t client;
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
    f(between("exchanges", 1, 1e5, "rounds in which a newcomer's embedding is learned"),
      o.exchanges);
    f(above("new_lr", 0, "learning rate of a newcomer's embedding"), o.new_lr);
  }

  HypernetSpec spec(int64_t clients, int64_t target, int64_t depths) const;
  /// Whether hypernetwork, gradient and momentum fit into `available` bytes; a sentence if not.
  Status check_memory(const std::string& method, const HypernetSpec& spec, int64_t available) const;

  /// Embeddings from N(0, 1); the hypernetwork generates about `first`, see Hypernet::init.
  HyperState init(const HypernetSpec& spec, int64_t clients, const Tensor& first,
                  const Tensor& scale, uint64_t key) const;
  /// Weights [target] of a client; those of the mean embedding for ids that never took part.
  Tensor generate(const HyperState& state, int64_t client) const;
  /// One step of SGD, in place: phi by all replies, weighted by their share of the samples, and
  /// the embeddings of those who replied; an absent client's embedding and its momentum rest.
  void step(HyperState& state, std::span<const HyperReply> replies) const;

  HyperGuest greet(const HyperState& state) const;
  Tensor generate(const HyperState& state, const HyperGuest& guest) const;
  /// One step of the embedding, hypernetwork frozen.
  HyperGuest learn(const HyperState& state, const HyperGuest& guest, const Tensor& delta) const;

 private:
  Hypernet net(const HyperState& state) const;
};

}  // namespace tessera

// FedAvg (McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
// Data", AISTATS 2017, Algorithm 1): train from the global model, average the results.
//
// In a header because FedProx, FedSGD and Reptile are FedAvg with one function exchanged. The model
// after the local step is FedAvg + fine-tuning: what a personalized method has to beat
// (docs/methods.md §0.6).
// Deviation: uploads are the trained weights, not their change: the mean of one client is then that
// client's model bit for bit (docs/methods.md §10.1).
#pragma once

#include "base/key.hpp"
#include "method/method.hpp"

namespace tessera {

/// A plain value; all functions are const and thread-safe. What each has to keep to is in
/// method.hpp.
struct FedAvg {
  /// The global model.
  struct Server {
    Weights g;
    static void fields(auto& m, auto&& f) { f("g", m.g); }
  };
  /// A client remembers nothing, gets the global model and returns its own, weighted.
  using Client = Nothing;
  using Down = Weights;
  using Up = Mean<Trained<Weights>>;

  /// Set by MethodDraft::build; FedAvg has no options of its own.
  TrainOptions train;
  static void options(auto&, auto&&) {}

  Server init_server(const Setup& setup) const { return {setup.model.init(setup.key)}; }
  Client init_client(const Local&) const { return {}; }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    for (const auto& ask : asks) send(ask, server.g);
  }
  /// Views: the global model, and the same after local training.
  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const;
  Up expected(const Server& server, Why, const Setup&) const { return {server.g}; }
  Server aggregate(Server, const Sum<Up>& sum, const Setup&) const { return {sum->value}; }
  Weights global(const Server& server, const Setup&) const { return server.g; }
};

}  // namespace tessera

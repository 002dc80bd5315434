// FedAvg (McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
// Data", AISTATS 2017, Algorithm 1): train from the global model, average the results.
//
// In a header because FedProx, FedSGD and Reptile are FedAvg with one function exchanged.
// Deviation: uploads are the trained weights, not their change: the mean of one client is then that
// client's model bit for bit (methods.md §10.1).
#pragma once

#include "base/key.hpp"
#include "method/method.hpp"

namespace tessera {

struct FedAvg {
  struct Server {
    Weights g;
    static void fields(auto& m, auto&& f) { f("g", m.g); }
  };
  using Client = Nothing;
  using Down = Weights;
  using Up = Weighted;

  TrainOptions train;
  static void options(auto&, auto&&) {}

  Server init_server(const Setup& setup) const { return {setup.model.init(setup.key)}; }
  Client init_client(const Setup&, ClientId) const { return {}; }
  Down broadcast(const Server& server, ClientId) const { return server.g; }
  Step<Client, Up> local_update(const Client&, const Down& g, const Local& local) const;
  Server aggregate(Server server, std::span<const Received<Up>> uploads) const;
  Personal personalize(const Client&, const Down& g, const Local& local, View view) const;
  Weights global(const Server& server) const { return server.g; }
};

/// The trained weights as an upload that counts by the client's number of training samples.
Weighted upload_of(const Trained& trained, const Local& local);
/// Bodies of the uploads, in order.
std::vector<Weighted> bodies(std::span<const Received<Weighted>> uploads);

}  // namespace tessera

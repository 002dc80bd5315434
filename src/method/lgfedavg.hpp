// LG-FedAvg (Liang et al., "Think Locally, Act Globally: Federated Learning with Local and Global
// Representations", 2020, Algorithm 1): a private representation under shared top layers, all
// trained together.
// As in the authors' experiments it starts with rounds of FedAvg (`warmup`): whole models travel
// then, and once more down to every client when it takes part for the first time afterwards.
// Deviations: newcomers ask the ensemble of the representations that clients upload with
// `base_bank`. All running statistics belong to the representation.
#pragma once

#include "method/method.hpp"
#include "tensor/split.hpp"

namespace tessera {

struct LgFedAvg {
  struct Server {
    Tensor top;               // g_P: [d_P]
    Weights base;             // FedAvg's at the end of the warm-up: where representations start
    PerClient<bool> own;      // who has left it with a representation of its own
    PerClient<Weights> bank;  // the latest of these; of nobody without base_bank
    static void fields(auto& m, auto&& f) {
      f("top", m.top), f("base", m.base), f("own", m.own), f("bank", m.bank);
    }
  };
  struct Client {
    Weights base;  // w_B,i
    static void fields(auto& m, auto&& f) { f("base", m.base); }
  };
  struct Down {
    Tensor top;
    bool warm = false;            // FedAvg: the base is uploaded, too
    std::optional<Weights> base;  // instead of the client's own
    std::optional<Tensor> bank;   // [K, d_B + d_b]: for newcomers
    static void fields(auto& m, auto&& f) {
      f("top", m.top), f("warm", m.warm), f("base", m.base), f("bank", m.bank);
    }
  };
  struct Up {
    Tensor top;
    Weight weight;
    std::optional<Weights> base;  // in the warm-up, or for the bank
    static void fields(auto& m, auto&& f) {
      f("top", m.top), f("weight", m.weight), f("base", m.base);
    }
  };

  TrainOptions train;
  int64_t per_layers = 1;
  double warmup = 0.1;
  bool base_bank = false;
  static void options(auto& m, auto&& f) {
    f(between("per_layers", 1, 100, "layers with parameters, from the last, that are shared"),
      m.per_layers);
    f(between("warmup", 0, 1, "share of the rounds, at the start, that are fedavg"), m.warmup);
    f(any("base_bank", "clients also upload their private layers, for newcomers to ask them all"),
      m.base_bank);
  }

  Status check(const Setup& setup) const;
  Server init_server(const Setup& setup) const;
  Client init_client(const Local& local) const;
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup& setup,
                 const Send<Down>& send) const;
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const;
  Up expected(const Server& server, Why why, const Setup& setup) const;
  Server aggregate(Server server, std::span<const Received<Up>> uploads, const Setup& setup) const;
  Personal personalize(const Client& me, const Down& down, const Local& local, View view) const;

 private:
  Split split(const Model& model) const { return {model.layout(), per_layers}; }
  int64_t warm_rounds(const Setup& setup) const;
  bool warm(const Setup& setup) const { return setup.round <= warm_rounds(setup); }
};

}  // namespace tessera

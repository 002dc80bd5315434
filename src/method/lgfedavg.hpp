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

/// d_P numbers are the shared top (the last per_layers layers with parameters), d_B the private
/// representation below with d_b running statistics. A plain value; const functions are
/// thread-safe.
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
  /// The representation after the client's last accepted round.
  struct Client {
    Weights base;  // w_B,i
    static void fields(auto& m, auto&& f) { f("base", m.base); }
  };
  /// Without base and bank: the client goes on with its own representation.
  struct Down {
    Tensor top;
    bool warm = false;            // FedAvg: the base is uploaded, too
    std::optional<Weights> base;  // instead of the client's own
    std::optional<Tensor> bank;   // [K, d_B + d_b]: for newcomers
    static void fields(auto& m, auto&& f) {
      f("top", m.top), f("warm", m.warm), f("base", m.base), f("bank", m.bank);
    }
  };
  /// Everything counts by the client's number of training samples.
  struct Parts {
    Trained<Tensor, &Down::top> top;
    std::optional<Trained<Weights, &Down::base>> base;  // in the warm-up, or for the bank
    static void fields(auto& m, auto&& f) { f("top", m.top), f("base", m.base); }
  };
  using Up = Mean<Parts>;

  TrainOptions train;
  /// `warmup` is rounded to whole rounds.
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

  std::string why_each() const {
    return base_bank ? "with base_bank its server keeps every client's private layers; set "
                       "method.base_bank = false"
                     : "";
  }
  /// kInvalid if no layer would be private, or if newcomers are to join without a bank to ask.
  Status check(const Setup& setup) const;
  /// Top and representations start from the common initial model.
  Server init_server(const Setup& setup) const;
  Client init_client(const Local& local) const;
  /// Newcomers get the bank; before there is one, the common representation.
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup& setup,
                 const Send<Down>& send) const;
  /// Top and representation are trained together. Gives no views: personalize() does.
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const;
  Up expected(const Server& server, Why why, const Setup& setup) const;
  /// In the warm-up both parts are averaged; afterwards the top, and the bank keeps the
  /// representations.
  Server aggregate(Server server, const Sum<Up>& sum, const Setup& setup) const;
  Server aggregate(Server server, std::span<const Received<Up>> uploads, const Setup& setup) const;
  /// A newcomer with a bank is the ensemble over it, the same in both views and without weights of
  /// its own.
  Personal personalize(const Client& me, const Down& down, const Local& local, View view) const;

 private:
  Split split(const Model& model) const { return {model.layout(), per_layers}; }
  /// In whole rounds, 0 … rounds.
  int64_t warm_rounds(const Setup& setup) const;
  bool warm(const Setup& setup) const { return setup.round <= warm_rounds(setup); }
};

}  // namespace tessera

// FedHAM (Gao et al., "Configure Your Federation: Hierarchical Attention-enhanced Meta-Learning
// Network for Personalized Federated Learning", ACM TIST 2023, Algorithms 1 and 2, eqs. 4–15): each
// client learns to mix the others' models, then its own, that mixture and the global model, and
// trains from there.
//
// Deviations (methods.md §5.3): softmax weights multiply the models themselves; W_q and W_k are
// sketches with a low-rank correction; warm-up is FedAvg; Theta is learned on training data that
// the network never sees (`theta_data = train` is the paper's); one mixture a round (`interleave =
// epoch` is the paper's); terms of eq. 15 that need other clients' data are dropped.
// Ablations: AML1 is layer 1 alone, AML2 layer 2 over the own and the global model.
#pragma once

#include "method/fedavg.hpp"
#include "method/method.hpp"
#include "optim/ham_round.hpp"
#include "tensor/peers.hpp"

namespace tessera {

struct FedHam {
  struct Held {
    int64_t client = 0;
    Weights w;
    static void fields(auto& m, auto&& f) { f("client", m.client), f("w", m.w); }
  };
  struct Server {
    Weights g;
    std::vector<Held> models;  // of everybody who has taken part, by client; none for AML2
    Nearness near;             // empty where everybody gets everything
    Tensor losses;             // reported so far [1 or clients, rounds]; NaN: not there
    Tensor mixing;             // bool [clients]: past the warm-up
    int64_t round = 0;
    int64_t secret = 0;  // of the order in which models are sent
    static void fields(auto& m, auto&& f) {
      f("g", m.g), f("models", m.models), f("near", m.near), f("losses", m.losses),
          f("mixing", m.mixing), f("round", m.round), f("secret", m.secret);
    }
  };
  struct Client {
    Weights own;
    bool trained = false;  // else `own` is the common initial model, and the global one is better
    Tensor theta;
    static void fields(auto& m, auto&& f) {
      f("own", m.own), f("trained", m.trained), f("theta", m.theta);
    }
  };
  struct Down {
    bool mixes = false;           // past the warm-up
    std::vector<Weights> others;  // of the client's cluster, shuffled, without names
    std::optional<Weights> g;
    static void fields(auto& m, auto&& f) {
      f("mixes", m.mixes), f("others", m.others), f("g", m.g);
    }
  };
  struct Up {
    Weighted model;
    double loss = 0;
    static void fields(auto& m, auto&& f) { f("model", m.model), f("loss", m.loss); }
  };
  struct Guest {
    std::optional<Weights> own;  // once it has uploaded
    static void fields(auto& m, auto&& f) { f("own", m.own); }
  };

  TrainOptions train;
  HamLayers layers = HamLayers::kBoth;
  int64_t p = 10;
  std::string when = "rounds", theta_data = "hold", interleave = "round", grain = "model";
  int64_t theta_epochs = 0, sketch = 0, rank = 8;
  double theta_lr = 3e-3;
  bool strict = false;
  std::string cluster = "kmeans";
  int64_t k = 0, min_cluster = 3;
  double kap1 = 1.0;
  std::string g_mode = "stop";
  double lambda = 0.1;
  bool slot_bias = true;

  static void shared_options(auto& m, auto&& f) {
    f(between("p", 0, 1e6, "warm-up: rounds of plain federated averaging, at most"), m.p);
    f(one_of("switch", {"rounds", "loss", "per_client_loss"},
             "end of the warm-up: after p rounds, or earlier once the mean loss, or a client's "
             "own, no longer falls"),
      m.when);
    f(one_of("theta_data", {"hold", "train", "val"},
             "what attention is learned on: 15 % of the training data, set aside; all of it; or "
             "the validation data, which then no longer judge a round fairly"),
      m.theta_data);
    f(between("theta_epochs", 0, 10000,
              "passes to learn attention per round; 0: 5, or 1 with theta_data = train"),
      m.theta_epochs);
    f(above("theta_lr", 0, "learning rate of attention"), m.theta_lr);
    f(any("strict", "attention by plain gradient descent instead of adam"), m.strict);
    f(one_of("interleave", {"round", "epoch"},
             "learn attention and mix once a round, or before "
             "every local epoch"),
      m.interleave);
    f(one_of("grain", {"model", "block"}, "attention weights for whole models, or layer by layer"),
      m.grain);
    f(between("sketch", 0, 100000,
              "numbers that stand for a layer; 0: 32, or 64 for fewer than four layers"),
      m.sketch);
    f(between("rank", 1, 1000, "rank of what is learned on top of plain similarity"), m.rank);
  }
  static void peer_options(auto& m, auto&& f) {
    f(one_of("cluster", {"none", "kmeans", "meanshift", "knn"},
             "whose models a client gets: everybody's, its cluster's, or the nearest 1/k"),
      m.cluster);
    f(between("k", 0, 100000, "number of clusters; 0: 1 up to 20 clients, else 5"), m.k);
    f(between("min_cluster", 1, 100000,
              "smallest cluster: whose model is whose must not be plain to see"),
      m.min_cluster);
    f(between("kap1", 0, 1000, "how sharply attention starts out on similar models"), m.kap1);
  }
  static void slot_options(auto& m, auto&& f) {
    f(one_of("g_mode", {"stop", "direct"},
             "training follows the own loss, or also that of the mixture"),
      m.g_mode);
    f(above("lambda", 0, "g_mode = direct: weight of the mixture's loss"), m.lambda);
    f(any("slot_bias", "learn a preference for own, others' or global model as such"), m.slot_bias);
  }
  static void options(auto& m, auto&& f) {
    shared_options(m, f), peer_options(m, f), slot_options(m, f);
  }

  Server init_server(const Setup& setup) const;
  Client init_client(const Setup& setup, ClientId id) const;
  Down broadcast(const Server& server, ClientId id) const;
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const;
  Server aggregate(Server server, std::span<const Received<Up>> uploads) const;
  Personal personalize(const Client& me, const Down& down, const Local& local, View view) const;
  Weights global(const Server& server) const { return server.g; }

  int64_t exchanges() const { return 1; }
  Guest greet(const Server&) const { return {}; }
  Down broadcast(const Server& server, const Guest& guest) const;
  Guest learn(const Server&, const Guest&, const Up& up) const { return {up.model.value}; }

  Status check(const Setup& setup) const;
  Status check(const ClientData& data) const;
  std::vector<Exhibit> exhibits(const Server& server, const Notes& notes) const;

 private:
  std::string name() const;
  PeerRule rule(int64_t clients) const;
  HamShape shape(const Model& model) const;
  HamTrained work(const Client& me, const Down& down, const Local& local,
                  int64_t warm_up_epochs) const;
  void end_warm_up(Server& server, std::span<const Received<Up>> uploads) const;
  std::vector<int64_t> sent_to(const Server& server, ClientId id) const;
  Down mixture_of(const Server& server, std::vector<int64_t> places) const;
};

struct Aml1 : FedHam {
  Aml1() { layers = HamLayers::kFirst; }
  static void options(auto& m, auto&& f) { shared_options(m, f), peer_options(m, f); }
};

struct Aml2 : FedHam {
  Aml2() { layers = HamLayers::kSecond; }
  static void options(auto& m, auto&& f) { shared_options(m, f), slot_options(m, f); }
};

}  // namespace tessera

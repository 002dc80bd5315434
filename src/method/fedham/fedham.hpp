// FedHAM (Gao et al., "Configure Your Federation: Hierarchical Attention-enhanced Meta-Learning
// Network for Personalized Federated Learning", ACM TIST 2023, Algorithms 1 and 2, eqs. 4–15): each
// client learns to mix the others' models, then its own, that mixture and the global model, and
// trains from there.
//
// Deviations (docs/methods.md §5.3): softmax weights multiply the models themselves; W_q and W_k
// are sketches with a low-rank correction; warm-up is FedAvg; Theta is learned on training data
// that the network never sees (`theta_data = train` is the paper's); one mixture a round
// (`interleave = epoch` is the paper's); terms of eq. 15 that need other clients' data are dropped.
// Ablations: AML1 is layer 1 alone, AML2 layer 2 over the own and the global model.
#pragma once

#include "method/fedavg.hpp"
#include "method/fedham/ham_round.hpp"
#include "method/fedham/peers.hpp"
#include "method/method.hpp"

namespace tessera {

/// What guards inside local training are told of (MethodInfo::beyond_sgd).
inline constexpr const char* kHamBeyond = "fits its attention to held-out samples beside its model";

/// Theta is what a client learns to mix by (ham_mixer.hpp); it never leaves the client. A plain
/// value; const functions are thread-safe.
struct FedHam {
  /// A series of losses, as far as its end matters.
  struct Losses {
    Tensor recent;      // float64 [6]: the best before the last five, then those; NaN: not yet
    bool flat = false;  // has ever stopped falling
    static void fields(auto& m, auto&& f) { f("recent", m.recent), f("flat", m.flat); }
  };
  /// Models of clients are sent on to others, without names: that is the method.
  struct Server {
    Weights g;
    PerClient<Weights> models;  // of everybody who has taken part; none for AML2
    Losses mean;                // of all clients, with switch = loss
    PerClient<Losses> losses;   // of each, with switch = per_client_loss
    int64_t secret = 0;         // of the order in which models are sent
    static void fields(auto& m, auto&& f) {
      f("g", m.g), f("models", m.models), f("mean", m.mean), f("losses", m.losses),
          f("secret", m.secret);
    }
  };
  /// `own` is the model after the client's last accepted round.
  struct Client {
    Weights own;
    bool trained = false;  // else `own` is the common initial model, and the global one is better
    Tensor theta;
    static void fields(auto& m, auto&& f) {
      f("own", m.own), f("trained", m.trained), f("theta", m.theta);
    }
  };
  /// In the warm-up the global model alone; after it the others', and g where layer 2 needs it or
  /// the client has never trained.
  struct Down {
    bool mixes = false;           // past the warm-up
    std::vector<Weights> others;  // of the client's cluster, shuffled, without names
    std::optional<Weights> g;
    static void fields(auto& m, auto&& f) {
      f("mixes", m.mixes), f("others", m.others), f("g", m.g);
    }
  };
  /// The loss is the mean over local training; it ends the warm-up and feeds the secret.
  struct Up {
    Mean<Trained<Weights, &Down::g, &Down::others>> model;
    IfAllowed<double> loss;
    static void fields(auto& m, auto&& f) { f("model", m.model), f("loss", m.loss); }
  };
  using Guest = Weights;  // the model that a newcomer has uploaded

  /// Set by MethodDraft::build; `layers` is fixed by the method in the table, the rest are options.
  TrainOptions train;
  HamLayers layers = HamLayers::kBoth;
  /// Rounds. Past them everybody mixes, whatever the losses do.
  int64_t p = 10;
  std::string when = "rounds", theta_data = "hold", interleave = "round", grain = "model";
  /// 0: chosen by the other options, as the help texts say.
  int64_t theta_epochs = 0, sketch = 0, rank = 8;
  double theta_lr = 3e-3;
  bool strict = false;
  // Layer 1: whose models are sent. k = 0 chooses by the number of clients.
  std::string cluster = "kmeans";
  int64_t k = 0, min_cluster = 3;
  double bandwidth = 0, kap1 = 1.0;
  // Layer 2. lambda only with g_mode = direct.
  std::string g_mode = "stop";
  double lambda = 0.1;
  bool slot_bias = true;

  // Three lists: the ablations have those that their layer uses.
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
    f(at_least("bandwidth", 0,
               "cluster = meanshift: how far apart models of a cluster may be; 0: as far as a "
               "model's nearest neighbours usually are"),
      m.bandwidth);
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

  /// g is the common initial model; nobody's models, no losses.
  Server init_server(const Setup& setup) const;
  Client init_client(const Local& local) const;
  /// A newcomer is first sent g; once it has uploaded a model (its guest), a mixture like
  /// anybody's.
  void broadcast(const Server& server, std::span<const Ask<Guest>> asks, const Setup& setup,
                 const Send<Down, Guest>& send) const;
  /// Views: the client's own model (or g, where it has none or the warm-up lasts), and the mixture
  /// after training. Notes "a" and "b" are attention and mixture scores, once it mixes.
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const;
  Up expected(const Server& server, Why, const Setup&) const { return {{server.g}, 0.0}; }
  /// Means are weighted by training samples. Keeps everybody's latest model, except for aml2.
  Server aggregate(Server server, std::span<const Received<Up>> uploads, const Setup& setup) const;
  Weights global(const Server& server, const Setup&) const { return server.g; }

  /// One: the newcomer introduces itself by a model trained for an epoch.
  int64_t exchanges() const { return 1; }
  Guest learn(const Server&, const Guest*, const Up& up, const Setup&) const {
    return up.model.value;
  }

  /// kInvalid: clusters that so few clients cannot fill, or options that exclude each other.
  Status check(const Setup& setup) const;
  /// kInvalid: theta_data = val without validation data.
  Status check(const ClientData& data) const;
  /// Attention [clients, clients], mixture [clients, 3], and who gets whose models where clients
  /// are grouped. NaN: not told, or told in a form that fits nothing.
  std::vector<Exhibit> exhibits(const Server& server, const Evaluated& evaluated,
                                const Setup& setup) const;

 private:
  /// Who has left a model, by place, and who is near whom among them.
  struct Senders {
    std::vector<ClientId> ids;
    PeerRule rule;
    Nearness near;
  };
  std::string name() const;
  /// Everybody's models where there is nothing to choose.
  PeerRule rule(int64_t clients) const;
  HamShape shape(const Setup& setup) const;
  /// Whether an asked client is past the warm-up; newcomers are as soon as anybody is.
  bool mixes(const Server& server, const Ask<Guest>& ask, const Setup& setup) const;
  /// Made once per broadcast: its cost does not grow with those who are asked.
  Senders senders(const Server& server, const Setup& setup) const;
  /// Whose models an asked client gets, in the order of the message, which only the server can
  /// know.
  std::vector<ClientId> sent_to(const Server& server, const Senders& senders,
                                const Ask<Guest>& ask) const;
  /// For a client past the warm-up.
  Down mixture_for(const Server& server, const Senders& senders, const Ask<Guest>& ask) const;
  /// One round at a client: training alone in the warm-up, else learn, mix, train.
  HamTrained work(const Client& me, const Down& down, const Local& local) const;
};

/// Layer 1 alone: the mixture of the others' models. No options of layer 2.
struct Aml1 : FedHam {
  Aml1() { layers = HamLayers::kFirst; }
  static void options(auto& m, auto&& f) { shared_options(m, f), peer_options(m, f); }
};

/// Layer 2 alone, over the own and the global model: the server keeps nobody's model.
struct Aml2 : FedHam {
  Aml2() { layers = HamLayers::kSecond; }
  static void options(auto& m, auto&& f) { shared_options(m, f), slot_options(m, f); }
};

}  // namespace tessera

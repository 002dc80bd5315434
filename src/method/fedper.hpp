// FedPer (Arivazhagan et al., "Federated Learning with Personalization Layers", 2019, Algorithms 1
// and 2): a shared base, a private head; both are trained together.
// Deviation: `head = mean` is what [MPER] evaluates, the average of everybody's heads; the heads
// are then uploaded too (docs/methods.md §2.1).
//
// In a header because FedPerMeta is FedPer with another evaluation.
#pragma once

#include "method/method.hpp"
#include "tensor/split.hpp"

namespace tessera {

/// d_P numbers are the head (the last per_layers layers with parameters), d_B the base with all
/// running statistics. A plain value; const functions are thread-safe.
struct FedPer {
  /// A head that a client has uploaded.
  struct Kept {
    Tensor head;  // [d_P]
    Weight size;  // training samples of its owner
    static void fields(auto& m, auto&& f) { f("head", m.head), f("size", m.size); }
  };
  struct Server {
    Weights base;           // w: [d_B]
    Tensor mean_head;       // [d_P] with head = mean, else [0]
    PerClient<Kept> heads;  // the latest, with mean_over = all
    static void fields(auto& m, auto&& f) {
      f("base", m.base), f("mean_head", m.mean_head), f("heads", m.heads);
    }
  };
  /// All that is private: the head after the client's last accepted round.
  struct Client {
    Tensor head;  // [d_P]
    static void fields(auto& m, auto&& f) { f("head", m.head); }
  };
  /// The client joins the base with its own head, or with the one that comes along.
  struct Down {
    Weights base;
    std::optional<Tensor> head;  // only to evaluate with the mean head
    static void fields(auto& m, auto&& f) { f("base", m.base), f("head", m.head); }
  };
  /// What is averaged; the head stays where it is unless head = mean.
  struct Parts {
    Trained<Weights, &Down::base> base;
    std::optional<Own<Tensor>> head;  // with head = mean
    static void fields(auto& m, auto&& f) { f("base", m.base), f("head", m.head); }
  };
  using Up = Mean<Parts>;

  TrainOptions train;
  /// Both choices are about evaluation: a round starts from the client's own head.
  std::string head = "own", mean_over = "all";
  int64_t per_layers = 1, ft_epochs = 10;
  /// Without what newcomers need, for methods that fit them in another way.
  static void split_options(auto& m, auto&& f) {
    f(one_of("head", {"own", "mean"}, "head that is evaluated: the client's, or everybody's mean"),
      m.head);
    f(one_of("mean_over", {"all", "last_round"}, "whose heads the mean is taken over"),
      m.mean_over);
    f(between("per_layers", 1, 100, "layers with parameters, from the last, that stay private"),
      m.per_layers);
  }
  static void options(auto& m, auto&& f) {
    split_options(m, f);
    f(between("ft_epochs", 1, 10000, "passes to fit a newcomer's head, base frozen"), m.ft_epochs);
  }

  std::string why_each() const {
    return mean_head() && mean_over == "all"
               ? "its server keeps every client's head for their mean; set method.mean_over = "
                 "\"last_round\", or method.head = \"own\""
               : "";
  }
  /// The parts of the common initial model, also at clients: nobody starts elsewhere.
  Server init_server(const Setup& setup) const;
  Client init_client(const Local& local) const;
  /// The mean head goes to those who are evaluated or join, never to those who train.
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup& setup,
                 const Send<Down>& send) const;
  /// Base and head are trained together. Views: start(), and the model after training.
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const;
  Up expected(const Server& server, Why why, const Setup& setup) const;
  /// Means are weighted by training samples; the mean head is over everybody's latest, or over this
  /// round's.
  Server aggregate(Server server, const Sum<Up>& sum, const Setup& setup) const;
  Server aggregate(Server server, std::span<const Received<Up>> uploads, const Setup& setup) const;

  /// The model [d] that a client trains and is evaluated from. A newcomer without a mean head gets
  /// its fresh head fitted for ft_epochs, base frozen: training, on its own data.
  Weights start(const Client& me, const Down& down, const Local& local) const;
  bool mean_head() const { return head == "mean"; }
  /// Of the run's model; the head is the part, the base the rest.
  Split split(const Model& model) const { return {model.layout(), per_layers}; }
};

}  // namespace tessera

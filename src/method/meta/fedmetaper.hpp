// FedMeta-Per ("Meta-learning and Personalization layer in Federated learning", Algorithms 1 to 3):
// a meta-learned base that all share, a head of its own for every client; MAML or Meta-SGD.
// Deviations (docs/methods.md §6.4): a client's head starts at its first participation, from the
// common initial model (`head_init = server_mean`: from the mean of the last round's heads, as in
// the authors' code; whole models then travel). Newcomers choose among the heads of others, which
// needs a bank of heads on the server (`head_bank`); it is handed out without names.
#pragma once

#include "method/meta/meta.hpp"
#include "method/method.hpp"
#include "train/check_task.hpp"

namespace tessera {

/// Base and head are those of a learner (meta.hpp): learned rates included, p numbers a head. A
/// plain value; const functions are thread-safe.
struct FedMetaPer {
  struct Server {
    Weights shared;          // base of the learner, or all of it with head_init = server_mean
    PerClient<Tensor> bank;  // heads [p]; of nobody without head_bank
    static void fields(auto& m, auto&& f) { f("shared", m.shared), f("bank", m.bank); }
  };
  /// The head after the client's last accepted round.
  struct Client {
    std::optional<Tensor> head;  // [p]; none: that of `shared`
    static void fields(auto& m, auto&& f) { f("head", m.head); }
  };
  /// `heads` only to newcomers: all of the bank, by client but without names; n may be 0.
  struct Down {
    Weights shared;
    std::optional<Tensor> heads;  // [n, p]: what a newcomer chooses from
    static void fields(auto& m, auto&& f) { f("shared", m.shared), f("heads", m.heads); }
  };
  /// Counts by the client's number of query samples.
  struct Parts {
    Trained<Weights, &Down::shared> shared;
    std::optional<Own<Tensor>> head;  // with head_bank
    static void fields(auto& m, auto&& f) { f("shared", m.shared), f("head", m.head); }
  };
  using Up = Mean<Parts>;

  TrainOptions train;
  MetaOptions meta;
  /// learned_rates is no option: it makes the Meta-SGD variant, another method in the table.
  bool learned_rates = false, head_bank = false;
  std::string head_init = "seed", select = "during";
  int64_t per_layers = 1;
  static void options(auto& m, auto&& f) {
    MetaOptions::options(m.meta, f);
    f(between("per_layers", 1, 100, "layers with parameters, from the last, that stay private"),
      m.per_layers);
    f(one_of("head_init", {"seed", "server_mean"},
             "first head of a client: the common initial one, or the last round's mean"),
      m.head_init);
    f(any("head_bank", "clients also upload their heads, for newcomers to choose from"),
      m.head_bank);
    f(one_of("select", {"during", "support_post", "ensemble"},
             "a newcomer's head: by its support loss while adapting, after it, or all averaged"),
      m.select);
  }

  std::string why_each() const {
    return head_bank ? "with head_bank its server keeps every client's head; set "
                       "method.head_bank = false"
                     : "";
  }
  Server init_server(const Setup& setup) const;
  /// Without a head where head_init = server_mean: the first download brings it.
  Client init_client(const Local& local) const;
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup& setup,
                 const Send<Down>& send) const;
  /// One outer step on base and head. Gives no views: personalize() does.
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const;
  Up expected(const Server& server, Why why, const Setup& setup) const;
  /// The mean over this round's uploads; the bank keeps everybody's latest head.
  Server aggregate(Server server, const Sum<Up>& sum, const Setup& setup) const;
  Server aggregate(Server server, std::span<const Received<Up>> uploads, const Setup& setup) const;
  /// kPre: the learner's model; kPost: the same adapted on the support data. A newcomer first
  /// chooses among the bank's heads, or averages the logits of all (then there are no weights).
  Personal personalize(const Client& me, const Down& down, const Local& local, View view) const;
  /// Of Meta-SGD: which share of the learned rates is below zero. Else nothing.
  std::vector<Exhibit> exhibits(const Server& server, const Evaluated&, const Setup&) const;
  /// kInvalid: newcomers without a bank; data that cannot be cut into support and query; a head
  /// that is none, or none where there must be one.
  Status check(const Setup& setup) const;
  Status check(const ClientData& data) const { return check_task(data); }
  Status check(const Client& me, const Setup& setup) const;

 private:
  /// Whole learners travel, not bases.
  bool whole() const { return head_init == "server_mean"; }
  /// Positions of the head in a learner, or (`rest`) of everything else. int64, ascending.
  Tensor positions(const Model& model, bool rest) const;
  /// The learner before round 1, its head [p], and the part of a learner that travels.
  Weights first(const Setup& setup) const;
  Tensor first_head(const Setup& setup) const;
  Weights shared_of(const Model& model, const Weights& learner) const;
  /// `shared` with this head in its place: a whole learner.
  Weights joined(const Model& model, const Weights& shared, const Tensor& head) const;
  Weights learner_of(const Client& me, const Down& down, const Model& model) const;
  /// The candidate that fits the support data best, the first of equals; refers into `candidates`,
  /// which must not be empty.
  const Weights& chosen(const std::vector<Weights>& candidates, const Local& local) const;
};

}  // namespace tessera

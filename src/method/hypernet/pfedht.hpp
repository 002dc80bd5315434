// pFedHT (Liu et al., "Personalized Federated Learning Based on Hypernetworks and Attention
// Mechanism Ensembles for Internet of Things", eqs. 11–20, Algorithm 2; structurally FedTP): a
// shared Transformer whose query, key and value projections W_i come, for every client, from a
// hypernetwork on the server; everything else, eta, is averaged.
// Deviations (docs/methods.md §7.4): uploads are received − trained; phi is shared and moves once
// per round; weights are renormalised over those who replied. A newcomer's eta is frozen while its
// embedding is learned, travels once, and is kept by the newcomer. Clipping is of phi alone.
//
// In a header because pfedht-gan is pFedHT with a GAN beside it.
#pragma once

#include "base/memory.hpp"
#include "method/hypernet/hyper_server.hpp"
#include "method/method.hpp"
#include "tensor/split.hpp"

namespace tessera {

/// A plain value; all functions are const and thread-safe. What each has to keep to is in
/// method.hpp.
struct PFedHT {
  struct Server {
    HyperState hn;
    Weights eta;  // w: [d − d_A]
    static void fields(auto& m, auto&& f) { f("hn", m.hn), f("eta", m.eta); }
  };
  struct Client {
    std::optional<Weights> eta;  // of a newcomer, once it has arrived
    static void fields(auto& m, auto&& f) { f("eta", m.eta); }
  };
  struct Down {
    Tensor attention;  // W_i: [d_A]
    std::optional<Weights> eta;
    static void fields(auto& m, auto&& f) { f("attention", m.attention), f("eta", m.eta); }
  };
  struct Up {
    Change<Tensor> delta;                             // received − trained W_i
    std::optional<Trained<Weights, &Down::eta>> eta;  // not of newcomers
    Count samples = 0;
    static void fields(auto& m, auto&& f) {
      f("delta", m.delta), f("eta", m.eta), f("samples", m.samples);
    }
  };
  using Guest = Embedding;  // who has one has been sent eta, and keeps it

  TrainOptions train;
  HyperServer hn{.new_lr = 0.01, .clip_embeddings = false};
  bool share_heads = false;
  std::string newclient = "embed";
  int64_t ft_epochs = 1;
  static void options(auto& m, auto&& f) {
    HyperServer::options(m.hn, f);
    f(any("share_heads", "one output layer for all depths, told apart by a learned code"),
      m.share_heads);
    f(one_of("newclient", {"embed", "finetune", "both"},
             "how newcomers get their attention: a learned embedding, local training, or both"),
      m.newclient);
    f(between("ft_epochs", 1, 10000, "passes of newcomers' local training of the attention"),
      m.ft_epochs);
  }

  HyperRun run(const Setup& setup) const {
    int64_t target = 0, depths = 0;
    for (const auto& slice : setup.model.layout().slices())
      if (slice.role == Role::kAttention) target += slice.numel(), ++depths;
    return hn.run(setup, target, share_heads ? depths : 1);
  }
  Status check(const Setup& setup) const {
    const auto wanted = run(setup);
    if (wanted.spec.target == 0)
      return fail(Error::kInvalid,
                  "pfedht generates a Transformer's attention projections, but this model has "
                  "none; set model.name to vit-s, vit-p (32×32 images) or vit-s28 (28×28)");
    return hn.check_memory("pfedht", wanted, available_memory());
  }
  /// A fresh state has no eta to compare with.
  Status check(const Client& me, const Setup& setup) const {
    if (me.eta) require_form(split(setup.model).rest_of(setup.model.init(setup.key)), *me.eta);
    return ok();
  }
  static Split split(const Model& model) { return {model.layout(), Role::kAttention}; }

  Server init_server(const Setup& setup) const {
    const auto first = setup.model.init(setup.key);
    const auto parts = split(setup.model);
    const auto scale = parts.part_of(slice_scale(setup.model.layout(), first.w));
    return {hn.init(run(setup), parts.part_of(first.w), scale), parts.rest_of(first)};
  }
  Client init_client(const Local&) const { return {}; }
  void broadcast(const Server& server, std::span<const Ask<Guest>> asks, const Setup& setup,
                 const Send<Down, Guest>& send) const {
    hn.generate(server.hn, run(setup), asks, [&](const auto& ask, Tensor attention) {
      send(ask, {std::move(attention), ask.guest ? std::nullopt : std::optional(server.eta)});
    });
  }

  /// What local training begins with: the view `pre`.
  Weights start(const Client& me, const Down& down, const Local& local) const {
    const auto parts = split(local.model);
    const auto eta = down.eta ? down.eta : me.eta;
    auto out = parts.joined(down.attention, eta.value());
    if (local.newcomer && local.why != Why::kJoin && newclient != "embed")
      out = local_sgd(out, local, train, {.epochs = ft_epochs, .only = parts.mask()}).weights;
    return out;
  }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto parts = split(local.model);
    const auto samples = samples_of(local);
    const auto start = this->start(me, down, local);
    if (local.why == Why::kJoin) {
      const auto after = local_sgd(start, local, train, {.only = parts.mask()});
      const auto delta = down.attention - parts.part_of(after.weights.w);
      return {{down.eta ? down.eta : me.eta},
              {delta, std::nullopt, samples},
              after.loss,
              start,
              after.weights};
    }
    const auto after = local_sgd(start, local, train);
    const auto delta = down.attention - parts.part_of(after.weights.w);
    return {me, {delta, parts.rest_of(after.weights), samples}, after.loss, start, after.weights};
  }
  Up expected(const Server& server, Why why, const Setup& setup) const {
    return {
        at::zeros({run(setup).spec.target}),
        why == Why::kJoin ? std::nullopt : std::optional<Trained<Weights, &Down::eta>>(server.eta)};
  }

  Server aggregate(Server server, std::span<const Received<Up>> uploads, const Setup& setup) const {
    std::vector<HyperReply> replies;
    std::vector<Weighted> etas;
    for (const auto& [client, up] : uploads) {
      replies.push_back({client, up.delta, up.samples});
      etas.push_back({up.eta.value(), up.samples});
    }
    hn.step(server.hn, run(setup), replies);
    server.eta = mean(etas);
    return server;
  }

  int64_t exchanges() const { return newclient == "finetune" ? 0 : hn.exchanges; }
  Guest learn(const Server& server, const Guest* guest, const Up& up, const Setup& setup) const {
    return hn.learn(server.hn, run(setup), guest, up.delta);
  }
  std::vector<Exhibit> exhibits(const Server& server, const Evaluated&, const Setup& setup) const {
    return {{"embedding", "Client embeddings", Exhibit::Kind::kPoints,
             hn.embeddings(server.hn, run(setup))}};
  }
};

}  // namespace tessera

// pFedLA and HeurpFedLA (Ma et al., "Layer-wised Model Aggregation for Personalized Federated
// Learning", CVPR 2022): for every block l the server mixes client i's model of all clients' latest
// ones, w_i^l = Σ_j a_ij^l w_j^l; a hypernetwork per client gives the shares a_i and learns from
// what the client's training makes of the mixture.
//
// Deviations (docs/methods.md §7.0, §7.2): uploads are the trained weights, from which the server
// forms received − trained, the sign that descends; running statistics follow the shares of their
// block. HeurpFedLA: the `keep_blocks` blocks in which the client's own share is largest are not
// mixed and not downloaded. They are still uploaded: others mix them, and the shares go on
// learning.

#include <ATen/ATen.h>

#include "base/memory.hpp"
#include "method/any_method.hpp"
#include "method/pfedla/layer_mix.hpp"
#include "method/pfedla/layer_mixer.hpp"

namespace tessera {
namespace {

struct PFedLA {
  using Server = LayerState;
  struct Client {
    Tensor own;  // w_i [d] as last trained, with keep_blocks; else [0]
    static void fields(auto& m, auto&& f) { f("own", m.own); }
  };
  struct Down {
    Weights rest;               // all blocks that the client does not keep
    std::vector<int64_t> kept;  // the others, ascending
    static void fields(auto& m, auto&& f) { f("rest", m.rest), f("kept", m.kept); }
  };
  using Up = Trained<Weights, &Down::rest>;

  TrainOptions train;
  LayerRule rule;
  static void options(auto& m, auto&& f) { LayerWeights::options(m.rule.net, f); }

  Status check(const Setup& setup) const {
    return rule.check_memory("pfedla", setup, available_memory());
  }
  Server init_server(const Setup& setup) const { return rule.init(setup); }
  Client init_client(const Local& local) const {
    if (rule.keep_blocks == 0) return {at::empty({0})};
    return {local.model.init(local.setup.key).w};
  }

  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup& setup,
                 const Send<Down>& send) const {
    const LayerMixer mixer(rule, server, setup);
    for (const auto& ask : asks) {
      const auto whole = mixer.mixture(ask.client);
      const auto kept = mixer.kept(ask.client);
      send(ask, {{without_blocks(whole.w, kept, mixer.table()), whole.b}, kept});
    }
  }
  static Weights received(const Client& me, const Down& down, const Model& model) {
    if (down.kept.empty()) return down.rest;
    return {with_blocks(me.own, down.rest.w, down.kept, block_table(model.layout())), down.rest.b};
  }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto start = received(me, down, local.model);
    const auto after = local_sgd(start, local, train);
    return {rule.keep_blocks > 0 ? Client{after.weights.w} : me, after.weights, after.loss, start,
            after.weights};
  }
  Up expected(const Server&, Why, const Setup& setup) const {
    return Weights{at::zeros({setup.model.layout().numel()}),
                   at::zeros({setup.model.buffers().numel()})};
  }
  Server aggregate(Server server, std::span<const Received<Up>> uploads, const Setup& setup) const {
    // All of them learn from the models that were mixed, not from those that came back.
    const LayerMixer mixer(rule, server, setup);
    std::vector<Tensor> learned;
    for (const auto& [client, trained] : uploads) learned.push_back(mixer.learned(client, trained));
    for (size_t i = 0; i < uploads.size(); ++i) {
      server.theta.put(uploads[i].client, learned[i]);
      server.latest.put(uploads[i].client, uploads[i].body);
    }
    return server;
  }

  std::vector<Exhibit> exhibits(const Server& server, const Evaluated&, const Setup& setup) const {
    const LayerMixer mixer(rule, server, setup);
    std::vector<Tensor> all, own;
    for (ClientId id = 0; id < setup.clients; ++id) {
      const auto a = mixer.shares(id);
      all.push_back(a.mean(0)), own.push_back(a.select(1, id));
    }
    std::vector<std::string> blocks;
    for (int64_t l = 1; l <= own.front().numel(); ++l) blocks.push_back(fmt::format("block {}", l));
    return {{"shares", "Share of each model in a client's mixture, mean over blocks",
             Exhibit::Kind::kMatrix, at::stack(all)},
            {"own_share",
             "Share of the client's own model in every block",
             Exhibit::Kind::kMatrix,
             at::stack(own),
             {},
             blocks}};
  }
};

struct HeurPFedLA : PFedLA {
  HeurPFedLA() { rule.keep_blocks = 1; }
  static void options(auto& m, auto&& f) {
    f(between("keep_blocks", 1, 1e4, "blocks of its own that a client keeps from being mixed"),
      m.rule.keep_blocks);
    PFedLA::options(m, f);
  }
  Status check(const Setup& setup) const {
    const auto blocks = static_cast<int64_t>(setup.model.layout().blocks().size());
    if (rule.keep_blocks <= blocks)
      return rule.check_memory("heurpfedla", setup, available_memory());
    return fail(Error::kInvalid,
                "heurpfedla: method.keep_blocks is {}, but the model has only {} blocks; lower it",
                rule.keep_blocks, blocks);
  }
};

}  // namespace

MethodInfo pfedla() {
  return describe<PFedLA>({.name = "pfedla",
                           .line = "every layer a mixture of all clients', by learned shares",
                           .paper = "Ma et al., CVPR 2022",
                           .equation = "Algorithm 1",
                           .section = "7.2",
                           .down = "d",
                           .up = "d",
                           .exposure = {.server = {{.tensor = "w", .words = "its latest model"}},
                                        .peers = Shown::kMixed,
                                        .sent = "mixtures with it, layer by layer",
                                        .kept = true},
                           .headline = View::kPost,
                           .beyond_sgd = ""});
}

MethodInfo heurpfedla() {
  return describe<HeurPFedLA>(
      {.name = "heurpfedla",
       .line = "pfedla that leaves each client its most personal layers",
       .paper = "Ma et al., CVPR 2022",
       .equation = "Algorithm 1, HeurpFedLA",
       .section = "7.2",
       .down = "d - kept",
       .up = "d",
       .exposure = {.server = {{.tensor = "w", .words = "its latest model"}},
                    .peers = Shown::kMixed,
                    .sent = "mixtures with it, layer by layer",
                    .kept = true},
       .headline = View::kPost,
       .beyond_sgd = ""});
}

}  // namespace tessera

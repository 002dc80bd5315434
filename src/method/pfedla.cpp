// pFedLA and HeurpFedLA (Ma et al., "Layer-wised Model Aggregation for Personalized Federated
// Learning", CVPR 2022): for every block l the server mixes client i's model of all clients' latest
// ones, w_i^l = Σ_j a_ij^l w_j^l; a hypernetwork per client gives the shares a_i and learns from
// what the client's training makes of the mixture.
//
// Deviations (methods.md §7.0, §7.2): uploads are the trained weights, from which the server forms
// received − trained, the sign that descends; running statistics follow the shares of their block.
// HeurpFedLA: the `keep_blocks` blocks in which the client's own share is largest are not mixed and
// not downloaded. They are still uploaded: others mix them, and the shares go on learning.

#include <ATen/ATen.h>

#include "base/memory.hpp"
#include "method/any_method.hpp"
#include "optim/layer_mixer.hpp"
#include "tensor/layer_mix.hpp"

namespace tessera {
namespace {

struct PFedLA {
  using Server = LayerState;
  struct Client {
    std::optional<Tensor> own;  // w_i [d] as last trained, with keep_blocks
    static void fields(auto& m, auto&& f) { f("own", m.own); }
  };
  struct Down {
    Weights rest;               // all blocks that the client does not keep
    std::vector<int64_t> kept;  // the others, ascending
    static void fields(auto& m, auto&& f) { f("rest", m.rest), f("kept", m.kept); }
  };
  using Up = Weights;

  TrainOptions train;
  LayerMixer mixer;
  static void options(auto& m, auto&& f) { LayerWeights::options(m.mixer.net, f); }

  Status check(const Setup& setup) const {
    return mixer.check_memory("pfedla", setup.model, setup.clients, available_memory());
  }
  Server init_server(const Setup& setup) const {
    return mixer.init(setup.model, setup.clients, setup.key);
  }
  Client init_client(const Setup& setup, ClientId) const {
    if (mixer.keep_blocks == 0) return {};
    return {setup.model.init(setup.key).w};
  }

  Down broadcast(const Server& server, ClientId id) const {
    const auto whole = mixer.mixture(server, id);
    const auto kept = mixer.kept(server, id);
    return {{without_blocks(whole.w, kept, server.table), whole.b}, kept};
  }
  static Weights received(const Client& me, const Down& down, const Model& model) {
    if (down.kept.empty()) return down.rest;
    return {with_blocks(*me.own, down.rest.w, down.kept, block_table(model.layout())), down.rest.b};
  }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto after = local_sgd(received(me, down, local.model), local, train);
    return {{me.own ? std::optional(after.weights.w) : std::nullopt}, after.weights, after.loss};
  }
  Server aggregate(Server server, std::span<const Received<Up>> uploads) const {
    for (const auto& upload : uploads) mixer.learn(server, upload.client, upload.body);
    // Only now: all of them learn from the models that were mixed.
    for (const auto& upload : uploads)
      server.latest.at(static_cast<size_t>(upload.client)) = upload.body;
    return server;
  }
  Personal personalize(const Client& me, const Down& down, const Local& local, View view) const {
    const auto start = received(me, down, local.model);
    return plain(local.model, view == View::kPre ? start : local_sgd(start, local, train).weights);
  }

  std::vector<Exhibit> exhibits(const Server& server, const Notes&) const {
    std::vector<Tensor> all, own;
    for (ClientId id = 0; id < server.clients(); ++id) {
      const auto a = mixer.shares(server, id);
      all.push_back(a.mean(0)), own.push_back(a.select(1, id));
    }
    std::vector<std::string> blocks;
    for (int64_t l = 1; l <= server.blocks(); ++l) blocks.push_back(fmt::format("block {}", l));
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
  HeurPFedLA() { mixer.keep_blocks = 1; }
  static void options(auto& m, auto&& f) {
    f(between("keep_blocks", 1, 1e4, "blocks of its own that a client keeps from being mixed"),
      m.mixer.keep_blocks);
    PFedLA::options(m, f);
  }
  Status check(const Setup& setup) const {
    const auto blocks = static_cast<int64_t>(setup.model.layout().blocks().size());
    if (mixer.keep_blocks <= blocks)
      return mixer.check_memory("heurpfedla", setup.model, setup.clients, available_memory());
    return fail(Error::kInvalid,
                "heurpfedla: method.keep_blocks is {}, but the model has only {} blocks; lower it",
                mixer.keep_blocks, blocks);
  }
};

}  // namespace

MethodInfo pfedla() {
  return describe<PFedLA>({.name = "pfedla",
                           .line = "every layer a mixture of all clients', by learned shares",
                           .paper = "Ma et al., CVPR 2022",
                           .headline = View::kPost});
}

MethodInfo heurpfedla() {
  return describe<HeurPFedLA>({.name = "heurpfedla",
                               .line = "pfedla that leaves each client its most personal layers",
                               .paper = "Ma et al., CVPR 2022",
                               .headline = View::kPost});
}

}  // namespace tessera

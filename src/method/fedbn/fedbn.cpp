// FedBN (Li et al., "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization",
// ICLR 2021, Algorithm 1): FedAvg of everything but the batch norms, whose weights, biases and
// running statistics stay with the client. What is a batch norm the model says, not a name.
// Deviations: `layernorm` keeps layer norms, too. Who has not trained yet (newcomers, and clients
// evaluated before their first round) has the initial weights and statistics measured on its data.

#include <ATen/ATen.h>

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "method/fedbn/norm_statistics.hpp"
#include "tensor/split.hpp"

namespace tessera {
namespace {

struct FedBN {
  struct Server {
    Weights g;  // w: all but the norms; no buffers
    static void fields(auto& m, auto&& f) { f("g", m.g); }
  };
  struct Client {
    Weights norms;  // w: weights and biases; b: running statistics
    bool trained = false;
    static void fields(auto& m, auto&& f) { f("norms", m.norms), f("trained", m.trained); }
  };
  using Down = Weights;
  using Up = Mean<Trained<Weights>>;

  TrainOptions train;
  bool layernorm = false;
  static void options(auto& m, auto&& f) {
    f(any("layernorm", "the layer norms of a Transformer stay private, too"), m.layernorm);
  }

  Split split(const Model& model) const {
    const auto is_private = [this](const Slice& slice) {
      return slice.role == Role::kNorm || (layernorm && slice.role == Role::kLayerNorm);
    };
    return {model.layout(), model.layout().positions(is_private)};
  }
  Status check(const Setup& setup) const {
    if (split(setup.model).numel() > 0) return ok();
    return fail(Error::kInvalid,
                "fedbn keeps batch norms at the client, but this model has none; set model.name to "
                "lenet16-bn, or method.layernorm = true for a Transformer's layer norms");
  }

  /// What travels: without norms, and no running statistics.
  Weights shared_of(const Weights& whole, const Model& model) const {
    return {split(model).rest_of(whole).w, at::empty({0}, whole.b.options())};
  }
  Weights norms_of(const Weights& whole, const Model& model) const {
    return {split(model).part_of(whole.w), whole.b};
  }
  Weights joined(const Client& me, const Weights& g, const Model& model) const {
    return split(model).joined(me.norms.w, {g.w, me.norms.b});
  }

  Server init_server(const Setup& setup) const {
    return {shared_of(setup.model.init(setup.key), setup.model)};
  }
  Client init_client(const Local& local) const {
    return {norms_of(local.model.init(local.setup.key), local.model)};
  }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    for (const auto& ask : asks) send(ask, server.g);
  }

  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const {
    const auto after = local_sgd(joined(me, g, local.model), local, train);
    return {{norms_of(after.weights, local.model), true},
            {shared_of(after.weights, local.model), samples_of(local)},
            after.loss};
  }
  Up expected(const Server& server, Why, const Setup&) const { return {server.g}; }
  Server aggregate(Server, const Sum<Up>& sum, const Setup&) const { return {sum->value}; }

  // Not the models before and after local_update: who trains for the first time does so without
  // measured statistics.
  Personal personalize(const Client& me, const Down& g, const Local& local, View view) const {
    auto start = joined(me, g, local.model);
    if (!me.trained) start.b = measured_statistics(start, local);
    return plain(local.model, view == View::kPre ? start : local_sgd(start, local, train).weights);
  }
};

}  // namespace

MethodInfo fedbn() {
  return describe<FedBN>({.name = "fedbn",
                          .line = "fedavg with private batch norms",
                          .paper = "Li et al., ICLR 2021",
                          .equation = "Algorithm 1",
                          .section = "2.5",
                          .down = "d - d_BN",
                          .up = "d - d_BN",
                          .exposure = {.server = {{.tensor = "value.w",
                                                   .words = "its trained model without batch norms",
                                                   .covers = Covers::kNotNorms}},
                                       .peers = Shown::kSum,
                                       .sent = "the mean",
                                       .stays = "batch norms with their statistics"},
                          .headline = View::kPost,
                          .beyond_sgd = "keeps running statistics of a client's samples"});
}

}  // namespace tessera

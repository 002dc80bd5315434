// FedRep (Collins et al., "Exploiting Shared Representations for Personalized Federated Learning",
// ICML 2021, Algorithm 1): a shared base, a private head; the head is fitted first, then the base
// under the fixed head, never both at once.
// Deviation: while the head is fitted, the base works in evaluation mode (no dropout, its running
// statistics stand), so its features are computed once. Both phases have an optimiser of their own.

#include "base/key.hpp"
#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "tensor/split.hpp"
#include "train/head_fit.hpp"

namespace tessera {
namespace {

constexpr int kHeadPhase = 1;  // its batches come in another order than those of the base

struct FedRep {
  struct Server {
    Weights base;  // w: [d_B]
    static void fields(auto& m, auto&& f) { f("base", m.base); }
  };
  struct Client {
    Tensor head;  // [d_P]
    static void fields(auto& m, auto&& f) { f("head", m.head); }
  };
  using Down = Weights;
  using Up = Mean<Trained<Weights>>;

  TrainOptions train;
  int64_t per_layers = 1, head_epochs = 5;
  static void options(auto& m, auto&& f) {
    f(between("per_layers", 1, 100, "layers with parameters, from the last, that stay private"),
      m.per_layers);
    f(between("head_epochs", 1, 10000, "passes that fit the head, before train.epochs of the base"),
      m.head_epochs);
  }

  Split split(const Model& model) const { return {model.layout(), per_layers}; }
  Status check(const Setup& setup) const {
    return check_per_layers(setup.model.layout(), per_layers, "fedrep");
  }

  Server init_server(const Setup& setup) const {
    return {split(setup.model).rest_of(setup.model.init(setup.key))};
  }
  Client init_client(const Local& local) const {
    return {split(local.model).part_of(local.model.init(local.setup.key).w)};
  }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    for (const auto& ask : asks) send(ask, server.base);
  }

  Weights with_fitted_head(const Weights& start, const Site& site) const {
    const Site head_phase{site.model, site.data, site.round, derive(site.key, kHeadPhase)};
    return fit_head(start, head_phase, train, per_layers, head_epochs).weights;
  }

  Step<Client, Up> local_update(const Client& me, const Down& base, const Local& local) const {
    const auto parts = split(local.model);
    auto start = parts.joined(me.head, base);
    if (local.newcomer) start = with_fitted_head(start, local);
    const auto after = local_sgd(with_fitted_head(start, local), local, train,
                                 {.only = parts.mask().logical_not()});
    return {{parts.part_of(after.weights.w)},
            {parts.rest_of(after.weights), samples_of(local)},
            after.loss,
            start,
            after.weights};
  }
  Up expected(const Server& server, Why, const Setup&) const { return {server.base}; }
  Server aggregate(Server, const Sum<Up>& sum, const Setup&) const { return {sum->value}; }
};

}  // namespace

MethodInfo fedrep() {
  return describe<FedRep>(
      {.name = "fedrep",
       .line = "shared base, private head, fitted one after the other",
       .paper = "Collins et al., ICML 2021",
       .equation = "Algorithm 1",
       .section = "2.3",
       .down = "d_B",
       .up = "d_B",
       .exposure =
           {.server = {{.tensor = "value.w", .words = "its trained base", .covers = Covers::kBase}},
            .peers = Shown::kSum,
            .sent = "the mean",
            .stays = "its head"},
       .headline = View::kPost,
       .beyond_sgd = "fits its head in passes of their own before each training of the base"});
}

}  // namespace tessera

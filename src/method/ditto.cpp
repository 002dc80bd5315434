// Ditto (Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021,
// Algorithm 1): FedAvg, and beside it every client trains a model of its own, v, on
// L(v) + lambda/2 |v − g|². The pull is to the g that was received, not to the client's trained
// copy of it.
// Deviation: epochs instead of single steps; v sees the same batches in the same order as the copy
// of g, so that lambda = 0 is Local-Train bit for bit (docs/methods.md §10.3).

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "train/pull.hpp"

namespace tessera {
namespace {

struct Ditto : FedAvg {
  struct Client {
    Weights v;
    static void fields(auto& m, auto&& f) { f("v", m.v); }
  };
  double lambda = 0.5, personal_lr = 0;
  int64_t personal_epochs = 0;
  static void options(auto& m, auto&& f) {
    f(at_least("lambda", 0, "pull of a client's own model to the global one; 0 is local training"),
      m.lambda);
    f(between("personal_epochs", 0, 100000, "passes of the own model per round; 0: train.epochs"),
      m.personal_epochs);
    f(at_least("personal_lr", 0, "learning rate of the own model; 0: train.lr"), m.personal_lr);
  }

  Status check(const Setup&) const {
    if (train.optimizer != "sgd") return ok();
    return check_pull({.method = "ditto",
                       .rate_key = personal_lr > 0 ? "method.personal_lr" : "train.lr",
                       .pull_key = "method.lambda",
                       .rate = personal().lr,
                       .strength = lambda});
  }

  TrainOptions personal() const {
    TrainOptions out = train;
    if (personal_lr > 0) out.lr = personal_lr;
    if (personal_epochs > 0) out.epochs = personal_epochs;
    return out;
  }
  SgdResult pulled(const Weights& v, const Weights& g, const Site& site, int64_t rounds) const {
    const auto options = personal();
    const Job job{.epochs = rounds * options.epochs, .hook = pull_to(g.w, lambda)};
    return local_sgd(v, site, options, job);
  }

  Client init_client(const Local& local) const { return {local.model.init(local.setup.key)}; }
  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const {
    constexpr int64_t kNewcomerRounds = 5;  // what a newcomer has missed, made up for from g
    const auto shared = local_sgd(g, local, train);
    const auto& start = local.newcomer ? g : me.v;
    const auto own = pulled(start, g, local, local.newcomer ? kNewcomerRounds : 1);
    return {{own.weights}, {shared.weights, samples_of(local)}, own.loss, start, own.weights};
  }
};

}  // namespace

MethodInfo ditto() {
  return describe<Ditto>(
      {.name = "ditto",
       .line = "fedavg, and an own model that is pulled towards it",
       .paper = "Li et al., ICML 2021",
       .equation = "Algorithm 1",
       .section = "4.1",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w",
                                .words = "a copy of the global model that it trained"}},
                    .peers = Shown::kSum,
                    .sent = "the mean",
                    .stays = "its own model"},
       .headline = View::kPost,
       .beyond_sgd = ""});
}

}  // namespace tessera

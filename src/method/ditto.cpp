// Ditto (Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021,
// Algorithm 1): FedAvg, and beside it every client trains a model of its own, v, on
// L(v) + lambda/2 |v − g|². The pull is to the g that was received, not to the client's trained
// copy of it.
// Deviation: epochs instead of single steps; v sees the same batches in the same order as the copy
// of g, so that lambda = 0 is Local-Train bit for bit (methods.md §10.3).

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "optim/pull.hpp"

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
  Trained pulled(const Weights& v, const Weights& g, const Local& local, int64_t rounds = 1) const {
    const auto options = personal();
    const Job job{.epochs = rounds * options.epochs, .hook = pull_to(g.w, lambda)};
    return local_sgd(v, local, options, job);
  }

  Client init_client(const Setup& setup, ClientId) const { return {setup.model.init(setup.key)}; }
  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const {
    const auto shared = local_sgd(g, local, train);
    const auto own = pulled(me.v, g, local);
    return {{own.weights}, upload_of(shared, local), own.loss};
  }
  Personal personalize(const Client& me, const Down& g, const Local& local, View view) const {
    constexpr int64_t kNewcomerRounds = 5;  // what a newcomer has missed, made up for from g
    if (local.newcomer)
      return plain(local.model,
                   view == View::kPre ? g : pulled(g, g, local, kNewcomerRounds).weights);
    return plain(local.model, view == View::kPre ? me.v : pulled(me.v, g, local).weights);
  }
};

}  // namespace

MethodInfo ditto() {
  return describe<Ditto>({.name = "ditto",
                          .line = "fedavg, and an own model that is pulled towards it",
                          .paper = "Li et al., ICML 2021",
                          .headline = View::kPost});
}

}  // namespace tessera

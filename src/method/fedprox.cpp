// FedProx (Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, eq. 2):
// FedAvg whose clients minimise L(w) + mu/2 ||w − g||². Deviation: a fixed number of local epochs
// instead of inexact solutions of varying accuracy.

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "train/pull.hpp"

namespace tessera {
namespace {

struct FedProx : FedAvg {
  double mu = 0.01;
  static void options(auto& m, auto&& f) {
    f(at_least("mu", 0, "weight of the pull towards the global model; 0 is fedavg"), m.mu);
  }

  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const {
    const auto trained = local_sgd(g, local, train, {.hook = pull_to(g.w, mu)});
    return {me, {trained.weights, samples_of(local)}, trained.loss, g, trained.weights};
  }
};

}  // namespace

MethodInfo fedprox() {
  return describe<FedProx>(
      {.name = "fedprox",
       .line = "fedavg with a pull towards the global model",
       .paper = "Li et al., MLSys 2020",
       .equation = "eq. 2",
       .section = "1.5",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its trained model"}},
                    .peers = Shown::kSum,
                    .sent = "the mean"},
       .headline = View::kPre,
       .beyond_sgd = ""});
}

}  // namespace tessera

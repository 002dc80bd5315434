#include "method/fedavg.hpp"

#include "method/any_method.hpp"

namespace tessera {

Step<Nothing, FedAvg::Up> FedAvg::local_update(const Client& me, const Down& g,
                                               const Local& local) const {
  const auto trained = local_sgd(g, local, train);
  return {me, {trained.weights, samples_of(local)}, trained.loss, g, trained.weights};
}

MethodInfo fedavg() {
  return describe<FedAvg>(
      {.name = "fedavg",
       .line = "weighted average of locally trained models",
       .paper = "McMahan et al., AISTATS 2017",
       .equation = "Algorithm 1",
       .section = "1.3",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its trained model"}},
                    .peers = Shown::kSum,
                    .sent = "the mean"},
       .headline = View::kPre,
       .beyond_sgd = ""});
}

}  // namespace tessera

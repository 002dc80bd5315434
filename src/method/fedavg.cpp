#include "method/fedavg.hpp"

#include "method/any_method.hpp"

namespace tessera {

Weighted upload_of(const SgdResult& trained, const Local& local) {
  return {trained.weights, static_cast<double>(local.data.train_size())};
}

Step<Nothing, Weighted> FedAvg::local_update(const Client& me, const Down& g,
                                             const Local& local) const {
  const auto trained = local_sgd(g, local, train);
  return {me, upload_of(trained, local), trained.loss, g, trained.weights};
}

FedAvg::Server FedAvg::aggregate(Server, std::span<const Received<Up>> uploads,
                                 const Setup&) const {
  return {uploads.front().body.value};
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
       .headline = View::kPre});
}

}  // namespace tessera

#include "method/fedavg.hpp"

#include "method/any_method.hpp"

namespace tessera {

Weighted upload_of(const Trained& trained, const Local& local) {
  return {trained.weights, static_cast<double>(local.data.train_size())};
}

std::vector<Weighted> bodies(std::span<const Received<Weighted>> uploads) {
  std::vector<Weighted> out;
  for (const auto& upload : uploads) out.push_back(upload.body);
  return out;
}

Step<Nothing, Weighted> FedAvg::local_update(const Client& me, const Down& g,
                                             const Local& local) const {
  const auto trained = local_sgd(g, local, train);
  return {me, upload_of(trained, local), trained.loss};
}

FedAvg::Server FedAvg::aggregate(Server, std::span<const Received<Up>> uploads) const {
  return {mean(bodies(uploads))};
}

Personal FedAvg::personalize(const Client&, const Down& g, const Local& local, View view) const {
  // Post is FedAvg + fine-tuning: what a personalized method has to beat (methods.md §0.6).
  return plain(local.model, view == View::kPre ? g : local_sgd(g, local, train).weights);
}

MethodInfo fedavg() {
  return describe<FedAvg>({.name = "fedavg",
                           .line = "weighted average of locally trained models",
                           .paper = "McMahan et al., AISTATS 2017",
                           .headline = View::kPre});
}

}  // namespace tessera

#include "method/fedper.hpp"

#include <ATen/ATen.h>

#include "method/any_method.hpp"

namespace tessera {

Weights FedPer::joined(const Model& model, const Weights& base, const Tensor& own) const {
  const auto at = head_at(model);
  auto w = at::empty({model.layout().numel()}, base.w.options());
  w.index_copy_(0, model.layout().others(at), base.w).index_copy_(0, at, own);
  return {w, base.b};
}

Weights FedPer::base_of(const Model& model, const Weights& whole) const {
  return {whole.w.index_select(0, model.layout().others(head_at(model))), whole.b};
}

Tensor FedPer::head_mask(const Model& model) const {
  return at::zeros({model.layout().numel()}, at::kBool).index_fill_(0, head_at(model), true);
}

FedPer::Server FedPer::init_server(const Setup& setup) const {
  const auto whole = setup.model.init(setup.key);
  const auto first = whole.w.index_select(0, head_at(setup.model));
  const int64_t kept = mean_head() && mean_over == "all" ? setup.clients : 0;
  return {base_of(setup.model, whole), mean_head() ? first : at::empty({0}, first.options()),
          at::zeros({kept, first.numel()}, first.options()), at::zeros({kept}, at::kDouble)};
}

FedPer::Client FedPer::init_client(const Setup& setup, ClientId) const {
  return {setup.model.init(setup.key).w.index_select(0, head_at(setup.model))};
}

FedPer::Down FedPer::broadcast_eval(const Server& server, ClientId) const {
  return {server.base, mean_head() ? std::optional(server.mean_head) : std::nullopt};
}

Step<FedPer::Client, FedPer::Up> FedPer::local_update(const Client& me, const Down& down,
                                                      const Local& local) const {
  const auto trained = local_sgd(joined(local.model, down.base, me.head), local, train);
  const auto own = trained.weights.w.index_select(0, head_at(local.model));
  Weighted base{base_of(local.model, trained.weights),
                static_cast<double>(local.data.train_size())};
  return {{own}, {base, mean_head() ? std::optional(own) : std::nullopt}, trained.loss};
}

FedPer::Server FedPer::aggregate(Server server, std::span<const Received<Up>> uploads) const {
  std::vector<Weighted> bases;
  std::vector<Tensor> heads;
  std::vector<double> sizes;
  for (const auto& upload : uploads) {
    bases.push_back(upload.body.base);
    if (upload.body.head) heads.push_back(*upload.body.head);
    sizes.push_back(upload.body.base.weight);
  }
  server.base = mean(bases);
  if (!mean_head()) return server;
  if (mean_over == "all") {
    server.heads = server.heads.clone(), server.sizes = server.sizes.clone();
    for (size_t i = 0; i < uploads.size(); ++i) {
      server.heads[uploads[i].client].copy_(heads[i]);
      server.sizes[uploads[i].client] = sizes[i];
    }
    heads.clear(), sizes.clear();
    for (int64_t i = 0; i < server.sizes.size(0); ++i) {
      if (server.sizes[i].item<double>() == 0) continue;  // never took part
      heads.push_back(server.heads[i]);
      sizes.push_back(server.sizes[i].item<double>());
    }
  }
  server.mean_head = mean(heads, sizes);
  return server;
}

Weights FedPer::evaluated(const Client& me, const Down& down, const Local& local) const {
  const auto start = joined(local.model, down.base, down.head ? *down.head : me.head);
  if (!local.newcomer || down.head) return start;
  return local_sgd(start, local, train, {.epochs = ft_epochs, .only = head_mask(local.model)})
      .weights;
}

Personal FedPer::personalize(const Client& me, const Down& down, const Local& local,
                             View view) const {
  const auto start = evaluated(me, down, local);
  return plain(local.model, view == View::kPre ? start : local_sgd(start, local, train).weights);
}

MethodInfo fedper() {
  return describe<FedPer>({.name = "fedper",
                           .line = "shared base, private head",
                           .paper = "Arivazhagan et al., 2019",
                           .headline = View::kPost});
}

}  // namespace tessera

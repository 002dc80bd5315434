#include "method/fedper.hpp"

#include <ATen/ATen.h>

#include "method/any_method.hpp"

namespace tessera {

FedPer::Server FedPer::init_server(const Setup& setup) const {
  const auto whole = setup.model.init(setup.key);
  const auto first = split(setup.model).part_of(whole.w);
  return {split(setup.model).rest_of(whole), mean_head() ? first : at::empty({0}, first.options()),
          why_each().empty() ? PerClient<Kept>() : PerClient<Kept>({first})};
}

FedPer::Client FedPer::init_client(const Local& local) const {
  return {split(local.model).part_of(local.model.init(local.setup.key).w)};
}

void FedPer::broadcast(const Server& server, std::span<const Ask<>> asks, const Setup&,
                       const Send<Down>& send) const {
  for (const auto& ask : asks) {
    Down down{server.base, std::nullopt};
    if (mean_head() && ask.why != Why::kTrain) down.head = server.mean_head;
    send(ask, std::move(down));
  }
}

Weights FedPer::start(const Client& me, const Down& down, const Local& local) const {
  const auto parts = split(local.model);
  const auto joined = parts.joined(down.head ? *down.head : me.head, down.base);
  if (!local.newcomer || down.head) return joined;
  return local_sgd(joined, local, train, {.epochs = ft_epochs, .only = parts.mask()}).weights;
}

Step<FedPer::Client, FedPer::Up> FedPer::local_update(const Client& me, const Down& down,
                                                      const Local& local) const {
  const auto parts = split(local.model);
  const auto before = start(me, down, local);
  const auto trained = local_sgd(before, local, train);
  const auto own = parts.part_of(trained.weights.w);
  Up up{{parts.rest_of(trained.weights), {}}, samples_of(local)};
  if (mean_head()) up.value.head = own;
  return {{own}, std::move(up), trained.loss, before, trained.weights};
}

FedPer::Up FedPer::expected(const Server& server, Why, const Setup&) const {
  Up up{{server.base, {}}};
  if (mean_head()) up.value.head = server.mean_head;
  return up;
}

FedPer::Server FedPer::aggregate(Server server, const Sum<Up>& sum, const Setup&) const {
  server.base = sum->value.base;
  if (mean_head()) server.mean_head = *sum->value.head;
  return server;
}

FedPer::Server FedPer::aggregate(Server server, std::span<const Received<Up>> uploads,
                                 const Setup&) const {
  std::vector<Weighted> bases;
  std::vector<Tensor> heads;
  std::vector<double> sizes;
  for (const auto& [client, up] : uploads) {
    bases.push_back({up.value.base, up.weight});
    server.heads.put(client, {*up.value.head, up.weight});
  }
  server.base = mean(bases);
  for (const auto& [client, kept] : server.heads)
    heads.push_back(kept.head), sizes.push_back(kept.size);
  server.mean_head = mean(heads, sizes);
  return server;
}

MethodInfo fedper() {
  return describe<FedPer>({.name = "fedper",
                           .line = "shared base, private head",
                           .paper = "Arivazhagan et al., 2019",
                           .equation = "Algorithms 1 and 2",
                           .section = "2.1",
                           .down = "d_B",
                           .up = "d_B",
                           .exposure = {.server = {{.tensor = "value.base.w",
                                                    .words = "its trained base",
                                                    .covers = Covers::kBase},
                                                   {.tensor = "value.head",
                                                    .words = "its head",
                                                    .covers = Covers::kTop,
                                                    .only = "with head = mean"}},
                                        .peers = Shown::kSum,
                                        .sent = "the mean",
                                        .stays = "its head"},
                           .headline = View::kPost,
                           .beyond_sgd = ""});
}

}  // namespace tessera

#include "method/meta/fedmetaper.hpp"

#include <ATen/ATen.h>

#include <limits>

#include "method/any_method.hpp"
#include "train/ensemble.hpp"

namespace tessera {
namespace {

/// By client but without names: [n, p].
Tensor all_heads(const PerClient<Tensor>& bank, int64_t p) {
  auto out = at::empty({bank.size(), p});
  int64_t row = 0;
  for (const auto& [client, head] : bank) out[row++].copy_(head);
  return out;
}

}  // namespace

Tensor FedMetaPer::positions(const Model& model, bool rest) const {
  const auto head = model.layout().trailing(per_layers);
  const auto part = rest ? model.layout().others(head) : head;
  return learned_rates ? at::cat({part, part + model.layout().numel()}) : part;
}

Weights FedMetaPer::first(const Setup& setup) const {
  return first_learner(setup.model.init(setup.key), learned_rates, meta.alpha);
}

Tensor FedMetaPer::first_head(const Setup& setup) const {
  return first(setup).w.index_select(0, positions(setup.model, false));
}

Weights FedMetaPer::shared_of(const Model& model, const Weights& learner) const {
  return whole() ? learner : Weights{learner.w.index_select(0, positions(model, true)), learner.b};
}

Weights FedMetaPer::joined(const Model& model, const Weights& shared, const Tensor& head) const {
  const auto at = positions(model, false);
  if (whole()) return {replaced(shared.w, at, head), shared.b};
  auto w = at::empty({shared.w.numel() + head.numel()}, head.options());
  w.index_copy_(0, positions(model, true), shared.w).index_copy_(0, at, head);
  return {w, shared.b};
}

Weights FedMetaPer::learner_of(const Client& me, const Down& down, const Model& model) const {
  return me.head ? joined(model, down.shared, *me.head) : down.shared;
}

FedMetaPer::Server FedMetaPer::init_server(const Setup& setup) const {
  return {shared_of(setup.model, first(setup)),
          head_bank ? PerClient<Tensor>(first_head(setup)) : PerClient<Tensor>()};
}

FedMetaPer::Client FedMetaPer::init_client(const Local& local) const {
  if (whole()) return {};
  return {first_head(local.setup)};
}

void FedMetaPer::broadcast(const Server& server, std::span<const Ask<>> asks, const Setup& setup,
                           const Send<Down>& send) const {
  Tensor heads;  // the same for all newcomers
  for (const auto& ask : asks) {
    Down down{server.shared, std::nullopt};
    if (ask.why == Why::kJoin) {
      if (!heads.defined()) heads = all_heads(server.bank, positions(setup.model, false).numel());
      down.heads = heads;
    }
    send(ask, std::move(down));
  }
}

Step<FedMetaPer::Client, FedMetaPer::Up> FedMetaPer::local_update(const Client& me,
                                                                  const Down& down,
                                                                  const Local& local) const {
  const auto step = meta_step(learner_of(me, down, local.model), local, train, meta);
  const auto head = step.learner.w.index_select(0, positions(local.model, false));
  Up up{{shared_of(local.model, step.learner), {}}, step.weight};
  if (head_bank) up.value.head = head;
  return {{head}, std::move(up), step.loss};
}

FedMetaPer::Up FedMetaPer::expected(const Server& server, Why, const Setup& setup) const {
  Up up{{server.shared, {}}};
  if (head_bank) up.value.head = first_head(setup);
  return up;
}

FedMetaPer::Server FedMetaPer::aggregate(Server server, const Sum<Up>& sum, const Setup&) const {
  server.shared = sum->value.shared;
  return server;
}

FedMetaPer::Server FedMetaPer::aggregate(Server server, std::span<const Received<Up>> uploads,
                                         const Setup&) const {
  std::vector<Weighted> parts;
  for (const auto& [client, up] : uploads) {
    parts.push_back({up.value.shared, up.weight});
    server.bank.put(client, *up.value.head);
  }
  server.shared = mean(parts);
  return server;
}

const Weights& FedMetaPer::chosen(const std::vector<Weights>& candidates,
                                  const Local& local) const {
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < candidates.size() && candidates.size() > 1; ++i) {
    const auto tried = adapted(candidates[i], local, train, meta);
    const double loss = select == "during"
                            ? tried.loss
                            : part_loss(local.model, tried.weights, local.data,
                                        local.data.adaptation(), train.loss_on(local.data));
    if (loss < least) best = i, least = loss;
  }
  return candidates[best];
}

Personal FedMetaPer::personalize(const Client& me, const Down& down, const Local& local,
                                 View view) const {
  std::vector<Weights> candidates;
  for (int64_t i = 0; down.heads && i < down.heads->size(0); ++i)
    candidates.push_back(joined(local.model, down.shared, (*down.heads)[i]));
  if (candidates.empty()) candidates = {learner_of(me, down, local.model)};
  const auto model_of = [&](const Weights& learner) {
    return view == View::kPre ? start_of(learner, local.model)
                              : adapted(learner, local, train, meta).weights;
  };
  if (select != "ensemble" || candidates.size() == 1)
    return plain(local.model, model_of(chosen(candidates, local)));
  std::vector<Weights> members;
  for (const auto& learner : candidates) members.push_back(model_of(learner));
  return {[&model = local.model, members](const Tensor& x) {
            return ensemble_logits(model, members, x);
          },
          std::nullopt};
}

Status FedMetaPer::check(const Setup& setup) const {
  if (setup.newcomers == 0 || head_bank) return ok();
  return fail(Error::kInvalid,
              "fedmetaper lets newcomers choose among the heads of others, but keeps none: set "
              "method.head_bank = true, or data.newcomers = 0");
}

Status FedMetaPer::check(const Client& me, const Setup& setup) const {
  const int64_t p = positions(setup.model, false).numel();
  if (me.head ? me.head->sizes().equals({p}) : whole()) return ok();
  return fail(Error::kInvalid, "fedmetaper: a client's head must have {} numbers", p);
}

std::vector<Exhibit> FedMetaPer::exhibits(const Server& server, const Evaluated&,
                                          const Setup&) const {
  if (!learned_rates) return {};
  const int64_t n = server.shared.w.numel() / 2;
  const auto negative = server.shared.w.narrow(0, n, n).lt(0).to(at::kDouble).mean().view({1, 1});
  return {{.name = "negative_rates",
           .title = "share of learned rates below zero",
           .value = negative,
           .rows = {"rates"},
           .columns = {"negative"}}};
}

namespace {

struct FedMetaPerSgd : FedMetaPer {
  FedMetaPerSgd() { learned_rates = true, meta.beta = 5e-4; }
};

}  // namespace

MethodInfo fedmetaper_maml() {
  return describe<FedMetaPer>(
      {.name = "fedmetaper-maml",
       .line = "meta-learned shared base, private head (MAML)",
       .paper = "Nguyen, Cao and Le",
       .equation = "Algorithms 1 to 3, eq. 3",
       .section = "6.4",
       .down = "d_B",
       .up = "d_B",
       .exposure = {.server = {{.tensor = "value.shared.w",
                                .words = "its trained base",
                                .covers = Covers::kBase},
                               {.tensor = "value.head",
                                .words = "its head",
                                .covers = Covers::kTop,
                                .only = "with head_bank"}},
                    .peers = Shown::kSum,
                    .sent = "the mean",
                    .stays = "its head",
                    .remark = "with head_bank newcomers get all heads, without names: a head shows "
                              "the classes of its client"},
       .headline = View::kPost,
       .beyond_sgd = kMetaBeyond});
}
MethodInfo fedmetaper_metasgd() {
  return describe<FedMetaPerSgd>(
      {.name = "fedmetaper-metasgd",
       .line = "the same with learned rates (Meta-SGD)",
       .paper = "Nguyen, Cao and Le",
       .equation = "Algorithms 1 to 3, eq. 7",
       .section = "6.4",
       .down = "2 d_B",
       .up = "2 d_B",
       .exposure = {.server = {{.tensor = "value.shared.w",
                                .words = "its trained base and rates",
                                .covers = Covers::kBase,
                                .copies = 2},
                               {.tensor = "value.head",
                                .words = "its head",
                                .covers = Covers::kTop,
                                .only = "with head_bank"}},
                    .peers = Shown::kSum,
                    .sent = "the means",
                    .stays = "its head",
                    .remark = "with head_bank newcomers get all heads, without names: a head shows "
                              "the classes of its client"},
       .headline = View::kPost,
       .beyond_sgd = kMetaBeyond});
}

}  // namespace tessera

#include "method/lgfedavg.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "method/any_method.hpp"
#include "train/ensemble.hpp"

namespace tessera {
namespace {

/// Representations as rows [K, d_B + d_b], by client but without names.
Tensor rows_of(const PerClient<Weights>& bank) {
  std::vector<Tensor> rows;
  for (const auto& [client, base] : bank) rows.push_back(at::cat({base.w, base.b}));
  return at::stack(rows);
}

}  // namespace

Status LgFedAvg::check(const Setup& setup) const {
  TESSERA_RETURN_IF_ERROR(check_per_layers(setup.model.layout(), per_layers, "lgfedavg"));
  if (setup.newcomers == 0 || base_bank) return ok();
  return fail(Error::kInvalid,
              "lgfedavg lets newcomers ask the private layers of others, but keeps none: set "
              "method.base_bank = true, or data.newcomers = 0");
}

int64_t LgFedAvg::warm_rounds(const Setup& setup) const {
  return std::llround(warmup * static_cast<double>(setup.rounds));
}

LgFedAvg::Server LgFedAvg::init_server(const Setup& setup) const {
  const auto first = setup.model.init(setup.key);
  const auto base = split(setup.model).rest_of(first);
  return {split(setup.model).part_of(first.w), base, PerClient<bool>(true),
          base_bank ? PerClient<Weights>(base) : PerClient<Weights>()};
}

LgFedAvg::Client LgFedAvg::init_client(const Local& local) const {
  return {split(local.model).rest_of(local.model.init(local.setup.key))};
}

void LgFedAvg::broadcast(const Server& server, std::span<const Ask<>> asks, const Setup& setup,
                         const Send<Down>& send) const {
  Tensor bank;  // the same for all newcomers
  for (const auto& ask : asks) {
    const bool joins = ask.why == Why::kJoin;
    Down down{server.top, warm(setup), std::nullopt, std::nullopt};
    if (joins && !server.bank.empty()) {
      if (!bank.defined()) bank = rows_of(server.bank);
      down.bank = bank;
    } else if (joins || (warm_rounds(setup) > 0 && !server.own.contains(ask.client))) {
      // Without a warm-up every client has the common initial representation by itself.
      down.base = server.base;
    }
    send(ask, std::move(down));
  }
}

Step<LgFedAvg::Client, LgFedAvg::Up> LgFedAvg::local_update(const Client& me, const Down& down,
                                                            const Local& local) const {
  const auto parts = split(local.model);
  const auto after =
      local_sgd(parts.joined(down.top, down.base ? *down.base : me.base), local, train);
  const auto base = parts.rest_of(after.weights);
  Up up{{parts.part_of(after.weights.w), {}}, samples_of(local)};
  if (down.warm || base_bank) up.value.base = base;
  return {{base}, std::move(up), after.loss};
}

LgFedAvg::Up LgFedAvg::expected(const Server& server, Why, const Setup& setup) const {
  Up up{{server.top, {}}};
  if (warm(setup) || base_bank) up.value.base = server.base;
  return up;
}

LgFedAvg::Server LgFedAvg::aggregate(Server server, const Sum<Up>& sum, const Setup& setup) const {
  server.top = sum->value.top;
  if (warm(setup))
    server.base = *sum->value.base;
  else
    for (const ClientId client : sum.clients) server.own.put(client, true);
  return server;
}

LgFedAvg::Server LgFedAvg::aggregate(Server server, std::span<const Received<Up>> uploads,
                                     const Setup& setup) const {
  std::vector<Tensor> tops;
  std::vector<Weighted> bases;
  std::vector<double> sizes;
  for (const auto& [client, up] : uploads) {
    tops.push_back(up.value.top), sizes.push_back(up.weight);
    bases.push_back({*up.value.base, up.weight});
    if (warm(setup)) continue;
    server.own.put(client, true);
    server.bank.put(client, *up.value.base);
  }
  server.top = mean(tops, sizes);
  if (warm(setup)) server.base = mean(bases);
  return server;
}

Personal LgFedAvg::personalize(const Client& me, const Down& down, const Local& local,
                               View view) const {
  const auto parts = split(local.model);
  if (!down.bank) {
    const auto start = parts.joined(down.top, down.base ? *down.base : me.base);
    return plain(local.model, view == View::kPre ? start : local_sgd(start, local, train).weights);
  }
  // The same in both views: a newcomer has no representation of its own to train.
  std::vector<Weights> members;
  const int64_t d = local.model.layout().numel() - down.top.numel();
  for (int64_t k = 0; k < down.bank->size(0); ++k) {
    const auto row = (*down.bank)[k];
    members.push_back(parts.joined(down.top, {row.slice(0, 0, d), row.slice(0, d)}));
  }
  return {[&model = local.model, members](const Tensor& x) {
            return ensemble_logits(model, members, x);
          },
          std::nullopt};
}

MethodInfo lgfedavg() {
  return describe<LgFedAvg>({.name = "lgfedavg",
                             .line = "private representation, shared top layers",
                             .paper = "Liang et al., 2020",
                             .equation = "Algorithm 1",
                             .section = "2.2",
                             .down = "d",
                             .up = "d",
                             .exposure = {.server = {{.tensor = "value.top",
                                                      .words = "its top layers",
                                                      .covers = Covers::kTop},
                                                     {.tensor = "value.base.w",
                                                      .words = "its base",
                                                      .covers = Covers::kBase,
                                                      .only = "in the warm-up, or with base_bank"}},
                                          .peers = Shown::kSum,
                                          .sent = "the means",
                                          .stays = "its base after the warm-up"},
                             .headline = View::kPost,
                             .beyond_sgd = ""});
}

}  // namespace tessera

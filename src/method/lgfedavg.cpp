#include "method/lgfedavg.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "method/any_method.hpp"
#include "optim/ensemble.hpp"

namespace tessera {
namespace {

/// A representation as a row of the bank.
Tensor row_of(const Weights& base) { return at::cat({base.w, base.b}); }

}  // namespace

Status LgFedAvg::check(const Setup& setup) const {
  TESSERA_RETURN_IF_ERROR(check_per_layers(setup.model.layout(), per_layers, "lgfedavg"));
  if (setup.newcomers == 0 || base_bank) return ok();
  return fail(Error::kInvalid,
              "lgfedavg lets newcomers ask the private layers of others, but keeps none: set "
              "method.base_bank = true, or data.newcomers = 0");
}

LgFedAvg::Server LgFedAvg::init_server(const Setup& setup) const {
  const auto first = setup.model.init(setup.key);
  const auto base = split(setup.model).rest_of(first);
  const int64_t warm = std::llround(warmup * static_cast<double>(setup.rounds));
  // Without a warm-up every client has the common initial representation by itself.
  return {split(setup.model).part_of(first.w),
          base,
          at::full({setup.clients}, warm == 0, at::kBool),
          Bank::of(base_bank ? setup.clients : 0, row_of(base)),
          0,
          warm};
}

LgFedAvg::Client LgFedAvg::init_client(const Setup& setup, ClientId) const {
  return {split(setup.model).rest_of(setup.model.init(setup.key))};
}

LgFedAvg::Down LgFedAvg::broadcast(const Server& server, ClientId id) const {
  Down down{server.top, server.warm(), std::nullopt, std::nullopt};
  if (!server.apart[id].item<bool>()) down.base = server.base;
  return down;
}

LgFedAvg::Down LgFedAvg::broadcast(const Server& server, const Guest&) const {
  Down down{server.top, server.warm(), std::nullopt, std::nullopt};
  if (server.bank.empty())
    down.base = server.base;  // nobody has one of its own yet
  else
    down.bank = server.bank.there();
  return down;
}

Step<LgFedAvg::Client, LgFedAvg::Up> LgFedAvg::local_update(const Client& me, const Down& down,
                                                            const Local& local) const {
  const auto parts = split(local.model);
  const auto after =
      local_sgd(parts.joined(down.top, down.base ? *down.base : me.base), local, train);
  const auto base = parts.rest_of(after.weights);
  Up up{parts.part_of(after.weights.w), static_cast<double>(local.data.train_size()), {}};
  if (down.warm || base_bank) up.base = base;
  return {{base}, std::move(up), after.loss};
}

LgFedAvg::Server LgFedAvg::aggregate(Server server, std::span<const Received<Up>> uploads) const {
  const bool warm = server.warm();
  std::vector<Tensor> tops;
  std::vector<Weighted> bases;
  std::vector<double> sizes;
  for (const auto& [client, round, up] : uploads) {
    tops.push_back(up.top), sizes.push_back(up.weight);
    server.round = std::max(server.round, round);
    if (warm) {
      bases.push_back({*up.base, up.weight});
      continue;
    }
    server.apart[client] = true;
    if (base_bank) server.bank.put(client, row_of(*up.base));
  }
  server.top = mean(tops, sizes);
  if (warm) server.base = mean(bases);
  return server;
}

Personal LgFedAvg::personalize(const Client& me, const Down& down, const Local& local,
                               View view) const {
  const auto parts = split(local.model);
  if (!down.bank) {
    const auto start = parts.joined(down.top, down.base ? *down.base : me.base);
    return plain(local.model, view == View::kPre ? start : local_sgd(start, local, train).weights);
  }
  // The same in both views: there is no representation of its own that a newcomer could train.
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
                             .headline = View::kPost});
}

}  // namespace tessera

#include "optim/layer_mixer.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "base/text.hpp"
#include "tensor/layer_mix.hpp"

namespace tessera {
namespace {

std::vector<Tensor> rows_of(const LayerState& state, Tensor Weights::*part) {
  std::vector<Tensor> out;
  for (const auto& one : state.latest) out.push_back(one.*part);
  return out;
}

}  // namespace

Status LayerMixer::check_memory(const std::string& method, const Model& model, int64_t clients,
                                int64_t available) const {
  const auto blocks = static_cast<int64_t>(model.layout().blocks().size());
  const int64_t each =
      model.layout().numel() + model.buffers().numel() + net.layout(clients, blocks).numel();
  const double bytes = 4.0 * static_cast<double>(clients) * static_cast<double>(each);
  if (bytes <= static_cast<double>(available)) return ok();
  return fail(Error::kInvalid,
              "{}: the server keeps a model and a hypernetwork per client, {} for {} clients, but "
              "only {} of memory are available; lower method.hidden or choose a smaller model",
              method, human_bytes(bytes), clients, human_bytes(static_cast<double>(available)));
}

LayerState LayerMixer::init(const Model& model, int64_t clients, uint64_t key) const {
  LayerState out;
  out.latest.assign(static_cast<size_t>(clients), model.init(key));
  out.table = block_table(model.layout());
  out.buffer_table = block_table(model.buffers(), model.layout());
  out.theta = net.init(clients, out.blocks(), key);
  out.least = least_buffers(model);
  return out;
}

Tensor LayerMixer::shares(const LayerState& state, int64_t client) const {
  const int64_t n = state.clients(), blocks = state.blocks();
  if (client >= n) return at::full({blocks, n}, 1.0 / static_cast<double>(n), at::kDouble);
  const auto out = net.shares(state.theta[client], client, n, blocks).to(at::kDouble);
  if (!at::isfinite(out).all().item<bool>())
    throw std::runtime_error(fmt::format(
        "the hypernetwork of client {} diverged; lower method.server_lr or train.lr", client));
  return out;
}

std::vector<int64_t> LayerMixer::kept(const LayerState& state, int64_t client) const {
  if (keep_blocks == 0 || client >= state.clients()) return {};
  const auto own = shares(state, client).select(1, client).contiguous();
  const auto* share = own.data_ptr<double>();
  std::vector<int64_t> order(static_cast<size_t>(own.numel()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [share](int64_t a, int64_t b) { return share[a] > share[b]; });
  order.resize(static_cast<size_t>(std::min(keep_blocks, own.numel())));
  std::sort(order.begin(), order.end());
  return order;
}

Weights LayerMixer::mixture(const LayerState& state, int64_t client) const {
  auto a = shares(state, client);
  for (const int64_t block : kept(state, client)) a[block].zero_()[client] = 1;
  return {mixed(rows_of(state, &Weights::w), a, state.table),
          at::maximum(mixed(rows_of(state, &Weights::b), a, state.buffer_table), state.least)};
}

void LayerMixer::learn(LayerState& state, int64_t client, const Weights& trained) const {
  const auto change = mixture(state, client).w - trained.w;
  const auto slope = block_products(change, rows_of(state, &Weights::w), state.table);
  auto theta = state.theta[client];
  theta.copy_(net.stepped(theta, client, slope));
}

}  // namespace tessera

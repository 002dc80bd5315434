#include "method/pfedla/layer_mixer.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "base/text.hpp"
#include "method/pfedla/layer_mix.hpp"

namespace tessera {
namespace {

int64_t blocks_of(const Model& model) {
  return static_cast<int64_t>(model.layout().blocks().size());
}

}  // namespace

Status LayerRule::check_memory(const std::string& method, const Setup& setup,
                               int64_t available) const {
  const auto& model = setup.model;
  const int64_t each = model.layout().numel() + model.buffers().numel() +
                       net.layout(setup.clients, blocks_of(model)).numel();
  const double bytes = 4.0 * static_cast<double>(setup.clients) * static_cast<double>(each);
  if (bytes <= static_cast<double>(available)) return ok();
  return fail(Error::kInvalid,
              "{}: the server keeps a model and a hypernetwork per client, {} for {} clients, but "
              "only {} of memory are available; lower method.hidden or choose a smaller model",
              method, human_bytes(bytes), setup.clients,
              human_bytes(static_cast<double>(available)));
}

LayerState LayerRule::init(const Setup& setup) const {
  const auto theta = net.layout(setup.clients, blocks_of(setup.model));
  return {PerClient<Weights>(setup.model.init(setup.key)),
          PerClient<Tensor>(at::zeros({theta.numel()}))};
}

LayerMixer::LayerMixer(const LayerRule& rule, const LayerState& state, const Setup& setup)
    : rule_(rule),
      state_(state),
      setup_(setup),
      table_(block_table(setup.model.layout())),
      buffer_table_(block_table(setup.model.buffers(), setup.model.layout())),
      blocks_(blocks_of(setup.model)) {
  const auto first = setup.model.init(setup.key);
  for (ClientId id = 0; id < setup.clients; ++id) {
    const auto* own = state.latest.find(id);
    w_.push_back(own ? own->w : first.w), b_.push_back(own ? own->b : first.b);
  }
}

Tensor LayerMixer::theta(ClientId client) const {
  const auto* own = state_.theta.find(client);
  return own ? *own : rule_.net.init(client, setup_.clients, blocks_, setup_.key);
}

Tensor LayerMixer::shares(ClientId client) const {
  const int64_t n = setup_.clients;
  if (client >= n) return at::full({blocks_, n}, 1.0 / static_cast<double>(n), at::kDouble);
  const auto out = rule_.net.shares(theta(client), client, n, blocks_).to(at::kDouble);
  if (!at::isfinite(out).all().item<bool>())
    throw std::runtime_error(fmt::format(
        "the hypernetwork of client {} diverged; lower method.server_lr or train.lr", client));
  return out;
}

std::vector<int64_t> LayerMixer::kept(ClientId client) const {
  if (rule_.keep_blocks == 0 || client >= setup_.clients) return {};
  const auto own = shares(client).select(1, client).contiguous();
  const auto* share = own.data_ptr<double>();
  std::vector<int64_t> order(static_cast<size_t>(own.numel()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [share](int64_t a, int64_t b) { return share[a] > share[b]; });
  order.resize(static_cast<size_t>(std::min(rule_.keep_blocks, own.numel())));
  std::sort(order.begin(), order.end());
  return order;
}

Weights LayerMixer::mixture(ClientId client) const {
  auto a = shares(client);
  for (const int64_t block : kept(client)) a[block].zero_()[client] = 1;
  return {mixed(w_, a, table_),
          at::maximum(mixed(b_, a, buffer_table_), least_buffers(setup_.model))};
}

Tensor LayerMixer::learned(ClientId client, const Weights& trained) const {
  const auto change = mixture(client).w - trained.w;
  return rule_.net.stepped(theta(client), client, block_products(change, w_, table_));
}

}  // namespace tessera

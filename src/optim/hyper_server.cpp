#include "optim/hyper_server.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/key.hpp"
#include "base/text.hpp"
#include "tensor/weights.hpp"

namespace tessera {
namespace {

enum Stream : uint64_t { kPhi = 1, kEmbeddings = 2 };

// SGD with momentum as torch has it: decay first, then momentum, then the step. Changes g.
void sgd(const Tensor& w, const Tensor& velocity, Tensor& g, double lr, const HyperServer& o) {
  if (o.weight_decay > 0) g.add_(w, o.weight_decay);
  velocity.mul_(o.momentum).add_(g);
  w.sub_(velocity, lr);
}

}  // namespace

HypernetSpec HyperServer::spec(int64_t clients, int64_t target, int64_t depths) const {
  return {embed > 0 ? embed : 1 + clients / 4, hidden, layers, target, depths};
}

Status HyperServer::check_memory(const std::string& method, const HypernetSpec& spec,
                                 int64_t available) const {
  const auto numbers = static_cast<double>(hypernet_numel(spec));
  const double bytes = 3 * 4 * numbers;  // float32: itself, its gradient, its momentum
  if (bytes <= static_cast<double>(available)) return ok();
  return fail(
      Error::kInvalid,
      "{}: the hypernetwork would have {:.1f} million numbers and take {} with its gradient "
      "and momentum, but only {} of memory are available; lower method.hidden or choose a "
      "smaller model",
      method, numbers * 1e-6, human_bytes(bytes), human_bytes(static_cast<double>(available)));
}

Hypernet HyperServer::net(const HyperState& state) const {
  return Hypernet({state.z.size(1), hidden, layers, state.target, state.depths});
}

HyperState HyperServer::init(const HypernetSpec& spec, int64_t clients, const Tensor& first,
                             const Tensor& scale, uint64_t key) const {
  auto phi = Hypernet(spec).init(first, scale, derive(key, kPhi));
  auto z = at::empty({clients, spec.embed}, at::kFloat);
  for (int64_t i = 0; i < clients; ++i) {
    Rng rng(derive(key, kEmbeddings, i));
    auto* row = z.data_ptr<float>() + i * spec.embed;
    std::generate(row, row + spec.embed, [&] { return static_cast<float>(rng.normal()); });
  }
  return {phi, at::zeros_like(phi), z, at::zeros_like(z), spec.target, spec.depths};
}

Tensor HyperServer::generate(const HyperState& state, int64_t client) const {
  if (client >= state.z.size(0)) return generate(state, greet(state));
  return net(state).generate(state.phi, state.z.narrow(0, client, 1))[0];
}

void HyperServer::step(HyperState& state, std::span<const HyperReply> replies) const {
  double total = 0;
  for (const auto& reply : replies) total += reply.weight;
  std::vector<int64_t> ids;
  std::vector<Tensor> deltas;
  for (const auto& reply : replies) {
    ids.push_back(reply.client);
    deltas.push_back(reply.delta * (reply.weight / total));
  }
  const auto rows = at::tensor(ids, at::kLong);
  auto z = state.z.index_select(0, rows), velocity = state.z_velocity.index_select(0, rows);
  auto [phi_grad, z_grad] = net(state).pull_back(state.phi, z, at::stack(deltas));
  const double norm = std::hypot(phi_grad.norm().item<double>(), z_grad.norm().item<double>());
  if (clip > 0 && norm > clip) phi_grad.mul_(clip / norm), z_grad.mul_(clip / norm);
  sgd(state.phi, state.phi_velocity, phi_grad, server_lr, *this);
  sgd(z, velocity, z_grad, embed_lr > 0 ? embed_lr : server_lr, *this);
  state.z.index_copy_(0, rows, z);
  state.z_velocity.index_copy_(0, rows, velocity);
}

HyperGuest HyperServer::greet(const HyperState& state) const {
  const auto z = state.z.mean(0);
  return {z, at::zeros_like(z)};
}

Tensor HyperServer::generate(const HyperState& state, const HyperGuest& guest) const {
  return net(state).generate(state.phi, guest.z.unsqueeze(0))[0];
}

HyperGuest HyperServer::learn(const HyperState& state, const HyperGuest& guest,
                              const Tensor& delta) const {
  auto z = guest.z.clone(), velocity = guest.velocity.clone();
  auto g = net(state).pull_back_embedding(state.phi, z.unsqueeze(0), delta.unsqueeze(0))[0];
  sgd(z, velocity, g, new_lr, *this);
  return {z, velocity};
}

}  // namespace tessera

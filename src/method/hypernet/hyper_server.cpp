#include "method/hypernet/hyper_server.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/key.hpp"
#include "base/text.hpp"
#include "tensor/weights.hpp"

namespace tessera {
namespace {

enum HyperStream : uint64_t { kPhi = 1, kEmbeddings = 2 };

// SGD with momentum as torch has it: decay first, then momentum, then the step. Changes g.
void sgd(const Tensor& w, const Tensor& velocity, Tensor& g, double lr, const HyperServer& o) {
  if (o.weight_decay > 0) g.add_(w, o.weight_decay);
  velocity.mul_(o.momentum).add_(g);
  w.sub_(velocity, lr);
}

}  // namespace

HyperRun HyperServer::run(const Setup& setup, int64_t target, int64_t depths) const {
  const int64_t size = embed > 0 ? embed : 1 + setup.clients / 4;
  return {{size, hidden, layers, target, depths}, setup.clients, setup.key};
}

Status HyperServer::check_memory(const std::string& method, const HyperRun& run,
                                 int64_t available) const {
  const auto numbers = static_cast<double>(hypernet_numel(run.spec));
  const double bytes = 3 * 4 * numbers;  // float32: itself, its gradient, its momentum
  if (bytes <= static_cast<double>(available)) return ok();
  return fail(
      Error::kInvalid,
      "{}: the hypernetwork would have {:.1f} million numbers and take {} with its gradient "
      "and momentum, but only {} of memory are available; lower method.hidden or choose a "
      "smaller model",
      method, numbers * 1e-6, human_bytes(bytes), human_bytes(static_cast<double>(available)));
}

HyperState HyperServer::init(const HyperRun& run, const Tensor& first, const Tensor& scale) const {
  auto phi = Hypernet(run.spec).init(first, scale, derive(run.key, kPhi));
  const auto like = at::zeros({run.spec.embed});
  return {phi, at::zeros_like(phi), PerClient<Embedding>({like, like})};
}

Embedding HyperServer::embedding(const HyperState& state, const HyperRun& run,
                                 ClientId client) const {
  if (const auto* own = state.embeddings.find(client)) return *own;
  auto z = at::empty({run.spec.embed}, at::kFloat);
  Rng rng(derive(run.key, kEmbeddings, client));
  auto* number = z.data_ptr<float>();
  std::generate(number, number + z.numel(), [&] { return static_cast<float>(rng.normal()); });
  return {z, at::zeros_like(z)};
}

Tensor HyperServer::embeddings(const HyperState& state, const HyperRun& run) const {
  std::vector<Tensor> rows;
  for (ClientId id = 0; id < run.clients; ++id) rows.push_back(embedding(state, run, id).z);
  return at::stack(rows);
}

Embedding HyperServer::mean_embedding(const HyperState& state, const HyperRun& run) const {
  const auto z = embeddings(state, run).mean(0);
  return {z, at::zeros_like(z)};
}

Tensor HyperServer::generate(const HyperState& state, const HyperRun& run, const Tensor& z) const {
  return Hypernet(run.spec).generate(state.phi, z.unsqueeze(0))[0];
}

void HyperServer::generate(const HyperState& state, const HyperRun& run,
                           std::span<const Ask<Embedding>> asks,
                           const Send<Tensor, Embedding>& send) const {
  std::optional<Embedding> mean;  // made for the first who needs it
  for (const auto& ask : asks) {
    const bool stranger = !ask.guest && ask.client >= run.clients;
    if (stranger && !mean) mean = mean_embedding(state, run);
    send(ask, generate(state, run,
                       ask.guest  ? ask.guest->z
                       : stranger ? mean->z
                                  : embedding(state, run, ask.client).z));
  }
}

void HyperServer::step(HyperState& state, const HyperRun& run,
                       std::span<const HyperReply> replies) const {
  double total = 0;
  for (const auto& reply : replies) total += reply.weight;
  std::vector<ClientId> present, away;
  std::vector<Tensor> deltas, rows;
  for (const auto& reply : replies) {
    deltas.push_back(reply.delta * (reply.weight / total));
    present.push_back(reply.client), rows.push_back(embedding(state, run, reply.client).z);
  }
  auto [phi_grad, z_grad] =
      Hypernet(run.spec).pull_back(state.phi, at::stack(rows), at::stack(deltas));
  const double of_phi = phi_grad.norm().item<double>(),
               norm = clip_embeddings ? std::hypot(of_phi, z_grad.norm().item<double>()) : of_phi;
  if (clip > 0 && norm > clip) {
    phi_grad.mul_(clip / norm);
    if (clip_embeddings) z_grad.mul_(clip / norm);
  }
  // A state is replaced, never written into: the one before may have to stand.
  state.phi = state.phi.clone(), state.phi_velocity = state.phi_velocity.clone();
  sgd(state.phi, state.phi_velocity, phi_grad, server_lr, *this);
  move(state, run, present, z_grad);
  if (absent == "rest") return;
  for (ClientId id = 0; id < run.clients; ++id)
    if (std::find(present.begin(), present.end(), id) == present.end()) away.push_back(id);
  auto none = at::zeros({static_cast<int64_t>(away.size()), run.spec.embed});
  move(state, run, away, none);
}

void HyperServer::move(HyperState& state, const HyperRun& run, std::span<const ClientId> clients,
                       Tensor& gradients) const {
  if (clients.empty()) return;
  std::vector<Tensor> rows, velocities;
  for (const ClientId client : clients) {
    const auto own = embedding(state, run, client);
    rows.push_back(own.z), velocities.push_back(own.velocity);
  }
  const auto z = at::stack(rows), velocity = at::stack(velocities);
  sgd(z, velocity, gradients, embed_lr > 0 ? embed_lr : server_lr, *this);
  for (size_t i = 0; i < clients.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    state.embeddings.put(clients[i], {z[row].clone(), velocity[row].clone()});
  }
}

Embedding HyperServer::learn(const HyperState& state, const HyperRun& run, const Embedding* guest,
                             const Tensor& delta) const {
  const auto before = guest ? *guest : mean_embedding(state, run);
  auto z = before.z.clone(), velocity = before.velocity.clone();
  auto g = Hypernet(run.spec).pull_back_embedding(state.phi, z.unsqueeze(0), delta.unsqueeze(0))[0];
  const double norm = g.norm().item<double>();
  if (clip_embeddings && clip > 0 && norm > clip) g.mul_(clip / norm);
  sgd(z, velocity, g, new_lr, *this);
  return {z, velocity};
}

}  // namespace tessera

#include "method/fedham.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/key.hpp"
#include "method/any_method.hpp"

namespace tessera {
namespace {

constexpr double kHeld = 0.15;          // of the training data, for Theta
constexpr int64_t kNewcomerEpochs = 5;  // of Theta, which starts from nothing
constexpr ClientId kNobody = -1;        // in keys that are no client's

/// Whether a series of losses no longer falls: the best of the last W is not below the best before
/// them by more than eps of it (methods.md §5.3.6).
bool stable(const Tensor& series) {
  constexpr int64_t kWindow = 5, kLeastRounds = 3;
  constexpr double kEps = 1e-2;
  const auto there = series.masked_select(series.isfinite());
  const int64_t t = there.numel();
  if (t < kLeastRounds || t <= kWindow) return false;
  const double before = there.narrow(0, 0, t - kWindow).min().item<double>();
  const double lately = there.narrow(0, t - kWindow, kWindow).min().item<double>();
  return before - lately < kEps * before;
}

int64_t place_of(const FedHam::Server& server, ClientId id) {
  const auto at = std::lower_bound(server.models.begin(), server.models.end(), id,
                                   [](const auto& held, ClientId c) { return held.client < c; });
  return at != server.models.end() && at->client == id ? at - server.models.begin() : -1;
}

bool mixes(const FedHam::Server& server, ClientId id) {
  return id < server.mixing.size(0) ? server.mixing[id].item<bool>()
                                    : server.mixing.any().item<bool>();
}

}  // namespace

std::string FedHam::name() const {
  return layers == HamLayers::kBoth ? "fedham" : layers == HamLayers::kFirst ? "aml1" : "aml2";
}

PeerRule FedHam::rule(int64_t clients) const {
  if (layers == HamLayers::kSecond || cluster == "none") return {};
  const int64_t usual = clients <= 20 ? 1 : 5;
  return {cluster, cluster == "meanshift" ? clients : k > 0 ? k : usual, min_cluster};
}

HamShape FedHam::shape(const Model& model) const {
  const int64_t width = sketch > 0 ? sketch : model.layout().blocks().size() < 4 ? 64 : 32;
  return {layers, grain == "block", slot_bias, width, rank, kap1};
}

FedHam::Server FedHam::init_server(const Setup& setup) const {
  const int64_t rows = when == "rounds" ? 0 : when == "loss" ? 1 : setup.clients;
  return {setup.model.init(setup.key),
          {},
          {},
          at::empty({rows, 0}, at::kDouble),
          at::full({setup.clients}, p == 0, at::kBool),
          0,
          static_cast<int64_t>(derive(setup.key, Purpose::kClient, kNobody))};
}

FedHam::Client FedHam::init_client(const Setup& setup, ClientId id) const {
  return {
      setup.model.init(setup.key), false,
      ham_start(setup.model.layout(), shape(setup.model), derive(setup.key, Purpose::kClient, id))};
}

// Places in server.models, in the order in which they are sent. A client cannot recompute it: the
// secret contains every loss that was ever reported, and it knows its own only.
std::vector<int64_t> FedHam::sent_to(const Server& server, ClientId id) const {
  const auto n = static_cast<int64_t>(server.models.size());
  const int64_t place = place_of(server, id);
  const auto by = rule(server.mixing.size(0));
  // Who holds no model of its own counts as holding g: the last row.
  auto out = place >= 0 || server.near.apart.numel() == 0
                 ? peers_of(server.near, by, n, place)
                 : peers_near(server.near, by, server.near.apart[n]);
  Rng(derive(static_cast<uint64_t>(server.secret), id)).shuffle(std::span(out));
  return out;
}

FedHam::Down FedHam::mixture_of(const Server& server, std::vector<int64_t> places) const {
  Down down{true, {}, std::nullopt};
  for (const int64_t place : places)
    down.others.push_back(server.models[static_cast<size_t>(place)].w);
  if (layers != HamLayers::kFirst) down.g = server.g;
  return down;
}

FedHam::Down FedHam::broadcast(const Server& server, ClientId id) const {
  if (!mixes(server, id)) return {false, {}, server.g};
  auto down = mixture_of(server, sent_to(server, id));
  // Layer 1 alone has no use for g, but who never trained has to start somewhere.
  if (place_of(server, id) < 0) down.g = server.g;
  return down;
}

FedHam::Down FedHam::broadcast(const Server& server, const Guest& guest) const {
  const int64_t clients = server.mixing.size(0);
  if (!guest.own || !mixes(server, clients)) return {false, {}, server.g};
  std::vector<double> apart;
  for (const auto& held : server.models)
    apart.push_back(std::pow(norm64(guest.own->w - held.w.w), 2));
  auto places = peers_near(server.near, rule(clients), at::tensor(apart, at::kDouble));
  Rng(derive(static_cast<uint64_t>(server.secret), kNobody)).shuffle(std::span(places));
  return mixture_of(server, std::move(places));
}

HamTrained FedHam::work(const Client& me, const Down& down, const Local& local,
                        int64_t warm_up_epochs) const {
  const auto [base, held] =
      theta_data == "hold" ? held_out(local.data, kHeld) : std::pair(local.data, local.data);
  const Local here{local.model, base, local.round, local.key, local.newcomer};
  const Local theta_here{local.model, held, local.round, local.key, local.newcomer};
  if (!down.mixes)
    return {local_sgd(*down.g, here, train, {.epochs = warm_up_epochs}), me.theta, {}};
  HamTraining ham{.shape = shape(local.model), .theta_lr = theta_lr, .strict = strict};
  ham.theta_epochs = local.newcomer          ? kNewcomerEpochs
                     : theta_epochs > 0      ? theta_epochs
                     : theta_data == "train" ? 1
                                             : 5;
  ham.lambda = g_mode == "direct" ? lambda : 0;
  ham.every_epoch = interleave == "epoch";
  const HamModels models{!me.trained && down.g ? *down.g : me.own, down.others, down.g};
  return ham_round(models, me.theta, here, theta_here,
                   theta_data == "val" ? Part::kVal : Part::kTrain, train, ham);
}

Step<FedHam::Client, FedHam::Up> FedHam::local_update(const Client& me, const Down& down,
                                                      const Local& local) const {
  // A newcomer introduces itself after one epoch.
  const auto done = work(me, down, local, local.newcomer ? 1 : train.epochs);
  return {{done.trained.weights, true, done.theta},
          {upload_of(done.trained, local), done.trained.loss},
          done.trained.loss};
}

void FedHam::end_warm_up(Server& server, std::span<const Received<Up>> uploads) const {
  const int64_t rows = server.losses.size(0);
  if (rows > 0) {
    auto now = at::full({rows, 1}, NAN, at::kDouble);
    double sum = 0, total = 0;
    for (const auto& upload : uploads) {
      sum += upload.body.model.weight * upload.body.loss, total += upload.body.model.weight;
      if (rows > 1) now[upload.client] = upload.body.loss;
    }
    if (when == "loss") now[0] = sum / total;
    server.losses = at::cat({server.losses, now}, 1);
  }
  server.mixing = server.mixing.clone();
  if (server.round >= p) server.mixing.fill_(true);
  if (when == "loss" && stable(server.losses[0])) server.mixing.fill_(true);
  for (int64_t i = 0; when == "per_client_loss" && i < rows; ++i)
    if (stable(server.losses[i])) server.mixing[i] = true;
}

FedHam::Server FedHam::aggregate(Server server, std::span<const Received<Up>> uploads) const {
  std::vector<Weighted> models;
  auto secret = static_cast<uint64_t>(server.secret);
  for (const auto& upload : uploads) {
    models.push_back(upload.body.model);
    secret = derive(secret, upload.client, std::bit_cast<uint64_t>(upload.body.loss));
    server.round = std::max(server.round, upload.base_round);
    if (layers == HamLayers::kSecond) continue;
    auto& held = server.models;
    const auto at = std::lower_bound(held.begin(), held.end(), upload.client,
                                     [](const Held& h, ClientId c) { return h.client < c; });
    if (at != held.end() && at->client == upload.client)
      at->w = upload.body.model.value;
    else
      held.insert(at, {upload.client, upload.body.model.value});
  }
  server.secret = static_cast<int64_t>(secret);
  server.g = mean(models);
  end_warm_up(server, uploads);
  if (!server.mixing.any().item<bool>()) return server;
  std::vector<Tensor> rows;
  for (const auto& held : server.models) rows.push_back(held.w.w);
  rows.push_back(server.g.w);
  server.near = nearness(rows, rule(server.mixing.size(0)), secret);
  return server;
}

Personal FedHam::personalize(const Client& me, const Down& down, const Local& local,
                             View view) const {
  if (view == View::kPre)
    return plain(local.model, (down.mixes && me.trained) || !down.g ? me.own : *down.g);
  const auto done = work(me, down, local, train.epochs);
  auto out = plain(local.model, done.trained.weights);
  if (down.mixes) out.notes = {{"a", done.scores.a}, {"b", done.scores.b}};
  return out;
}

Status FedHam::check(const Setup& setup) const {
  const int64_t n = setup.clients, parts = rule(n).parts;
  if ((cluster == "none" && k > 1) || (cluster == "meanshift" && k > 0))
    return fail(Error::kInvalid, "{}: k = {} has no meaning with cluster = \"{}\"; remove one",
                name(), k, cluster);
  if (parts == 1) return ok();
  if (cluster != "meanshift" && parts > n)
    return fail(Error::kInvalid, "{}: k = {} is more than the {} clients; lower k", name(), parts,
                n);
  const int64_t needed = cluster == "kmeans" ? parts * min_cluster : min_cluster;
  if (needed > n)
    return fail(Error::kInvalid,
                "{}: {} of at least min_cluster = {} need {} clients and there are {}; lower {}",
                name(), cluster == "kmeans" ? fmt::format("k = {} clusters", parts) : "clusters",
                min_cluster, needed, n, cluster == "kmeans" ? "k or min_cluster" : "min_cluster");
  return ok();
}

Status FedHam::check(const ClientData& data) const {
  if (theta_data == "val" && data.size(Part::kVal) == 0)
    return fail(Error::kInvalid,
                "{}: theta_data = \"val\" needs validation data and client {} has none; raise "
                "data.val or use theta_data = \"hold\"",
                name(), data.name);
  return ok();
}

std::vector<Exhibit> FedHam::exhibits(const Server& server, const Notes& notes) const {
  const int64_t n = server.mixing.size(0);
  auto attention = at::full({n, n}, NAN, at::kDouble), mixture = at::full({n, 3}, NAN, at::kDouble);
  auto together = at::zeros({n, n}, at::kDouble);
  for (const auto& [id, told] : notes) {
    if (id >= n || !told.contains("a")) continue;
    const auto a = told.at("a").mean(0), b = told.at("b").mean(0);
    const auto places = sent_to(server, id);
    for (size_t j = 0; j < places.size(); ++j) {
      const int64_t other = server.models[static_cast<size_t>(places[j])].client;
      attention[id][other] = a[static_cast<int64_t>(j)];
      together[id][other] = 1;
    }
    mixture[id] = b;
    if (layers == HamLayers::kSecond) mixture[id][1] = NAN;
  }
  std::vector<Exhibit> out;
  if (layers != HamLayers::kSecond)
    out.push_back({"attention", "Attention of a client (row) to the others' models (column)",
                   Exhibit::Kind::kMatrix, attention});
  if (layers != HamLayers::kFirst)
    out.push_back({"mixture",
                   "What a client's model is mixed of",
                   Exhibit::Kind::kMatrix,
                   mixture,
                   {},
                   {"own", "attention", "global"}});
  if (rule(n).parts > 1)
    out.push_back({"clusters", "Whose models a client gets", Exhibit::Kind::kGraph, together});
  return out;
}

MethodInfo fedham() {
  return describe<FedHam>({.name = "fedham",
                           .line = "each client learns to mix others', own and global models",
                           .paper = "Gao et al., ACM TIST 2023",
                           .headline = View::kPost});
}

MethodInfo aml1() {
  return describe<Aml1>({.name = "aml1",
                         .line = "fedham without its second layer: the others' models only",
                         .paper = "Gao et al., ACM TIST 2023 (ablation)",
                         .headline = View::kPost});
}

MethodInfo aml2() {
  return describe<Aml2>({.name = "aml2",
                         .line = "fedham without its first layer: own and global model only",
                         .paper = "Gao et al., ACM TIST 2023 (ablation)",
                         .headline = View::kPost});
}

}  // namespace tessera

#include "method/fedham/fedham.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "base/key.hpp"
#include "method/any_method.hpp"

namespace tessera {
namespace {

constexpr double kHeld = 0.15;                  // of the training data, for Theta
constexpr int64_t kNewcomerEpochs = 5;          // of Theta, which starts from nothing
constexpr ClientId kNobody = -1;                // in keys that are no client's
constexpr int64_t kWindow = 5;                  // losses that count as recent
constexpr uint64_t kSketches = 0x736b65746368;  // apart from other uses of the run's key

FedHam::Losses no_losses() { return {at::full({1 + kWindow}, NAN, at::kDouble)}; }

/// The series with one more loss. It no longer falls where the best of the last W is not below the
/// best before them by more than eps of it (docs/methods.md §5.3.6).
FedHam::Losses continued(const FedHam::Losses& series, double loss) {
  constexpr double kEps = 1e-2;
  if (!std::isfinite(loss)) return series;
  auto recent = series.recent.clone();
  double* best = recent.data_ptr<double>();
  double *first = best + 1, *last = best + kWindow;
  *best = std::fmin(*best, *first);  // of a number and NaN: the number
  std::rotate(first, first + 1, last + 1);
  *last = loss;
  const bool flat = !std::isnan(*best) && *best - *std::min_element(first, last + 1) < kEps * *best;
  return {recent, series.flat || flat};
}

}  // namespace

std::string FedHam::name() const {
  return layers == HamLayers::kBoth ? "fedham" : layers == HamLayers::kFirst ? "aml1" : "aml2";
}

PeerRule FedHam::rule(int64_t clients) const {
  if (layers == HamLayers::kSecond || cluster == "none") return {};
  const int64_t usual = clients <= 20 ? 1 : 5;
  return {cluster, cluster == "meanshift" ? clients : k > 0 ? k : usual, min_cluster, bandwidth};
}

HamShape FedHam::shape(const Setup& setup) const {
  const int64_t width = sketch > 0 ? sketch : setup.model.layout().blocks().size() < 4 ? 64 : 32;
  return {layers, grain == "block", slot_bias, width, rank, kap1, derive(setup.key, kSketches)};
}

FedHam::Server FedHam::init_server(const Setup& setup) const {
  const auto g = setup.model.init(setup.key);
  return {g, layers == HamLayers::kSecond ? PerClient<Weights>() : PerClient<Weights>(g),
          no_losses(),
          when == "per_client_loss" ? PerClient<Losses>(no_losses()) : PerClient<Losses>(),
          static_cast<int64_t>(derive(setup.key, Purpose::kClient, kNobody))};
}

FedHam::Client FedHam::init_client(const Local& local) const {
  const auto key = derive(local.setup.key, Purpose::kClient, local.client);
  return {local.model.init(local.setup.key), false,
          ham_start(local.model.layout(), shape(local.setup), key)};
}

// Past the warm-up. Newcomers are as soon as anybody is.
bool FedHam::mixes(const Server& server, const Ask<Guest>& ask, const Setup& setup) const {
  if (setup.round > p || server.mean.flat) return true;
  if (ask.client >= setup.clients)
    return std::any_of(server.losses.begin(), server.losses.end(),
                       [](const auto& one) { return one.second.flat; });
  const auto* own = server.losses.find(ask.client);
  return own && own->flat;
}

FedHam::Senders FedHam::senders(const Server& server, const Setup& setup) const {
  std::vector<Tensor> rows;
  for (const auto& [id, w] : server.models) rows.push_back(w.w);
  rows.push_back(server.g.w);
  const auto by = rule(setup.clients);
  return {server.models.ids(), by, nearness(rows, by, static_cast<uint64_t>(server.secret))};
}

// In the order of the message. A client cannot recompute it: the secret contains every loss that
// was ever reported, and it knows its own only.
std::vector<ClientId> FedHam::sent_to(const Server& server, const Senders& senders,
                                      const Ask<Guest>& ask) const {
  const auto& [ids, by, near] = senders;
  const auto n = static_cast<int64_t>(ids.size());
  const auto at = std::lower_bound(ids.begin(), ids.end(), ask.client);
  const bool left_one = at != ids.end() && *at == ask.client;
  std::vector<int64_t> places;
  if (ask.guest) {
    std::vector<double> distances;
    for (const auto& [id, w] : server.models)
      distances.push_back(std::pow(norm64(ask.guest->w - w.w), 2));
    places = peers_near(near, by, at::tensor(distances, at::kDouble));
  } else if (left_one || near.everybody()) {
    places = peers_of(near, by, n, left_one ? at - ids.begin() : -1);
  } else {  // counts as holding g: the last row
    places = peers_near(near, by, near.distances[n]);
  }
  std::vector<ClientId> out;
  for (const int64_t place : places) out.push_back(ids[static_cast<size_t>(place)]);
  const ClientId to = ask.guest ? kNobody : ask.client;
  Rng(derive(static_cast<uint64_t>(server.secret), to)).shuffle(std::span(out));
  return out;
}

FedHam::Down FedHam::mixture_for(const Server& server, const Senders& senders,
                                 const Ask<Guest>& ask) const {
  Down down{true, {}, std::nullopt};
  for (const ClientId id : sent_to(server, senders, ask))
    down.others.push_back(*server.models.find(id));
  // Layer 1 alone has no use for g, but who never trained has to start somewhere.
  const bool trained = ask.guest || server.models.contains(ask.client);
  if (layers != HamLayers::kFirst || !trained) down.g = server.g;
  return down;
}

void FedHam::broadcast(const Server& server, std::span<const Ask<Guest>> asks, const Setup& setup,
                       const Send<Down, Guest>& send) const {
  std::optional<Senders> from;  // made for the first who mixes
  for (const auto& ask : asks) {
    const bool stranger = ask.why == Why::kJoin && !ask.guest;
    if (stranger || !mixes(server, ask, setup)) {
      send(ask, {false, {}, server.g});
      continue;
    }
    if (!from) from = senders(server, setup);
    send(ask, mixture_for(server, *from, ask));
  }
}

HamTrained FedHam::work(const Client& me, const Down& down, const Local& local) const {
  const auto [base, held] =
      theta_data == "hold" ? held_out(local.data, kHeld) : std::pair(local.data, local.data);
  const Site here{local.model, base, local.round, local.key};
  const Site theta_here{local.model, held, local.round, local.key};
  if (!down.mixes) {
    // A newcomer introduces itself after one epoch.
    const Job job{.epochs = local.why == Why::kJoin ? 1 : train.epochs};
    return {local_sgd(down.g.value(), here, train, job), me.theta, {}};
  }
  HamTraining ham{.shape = shape(local.setup), .theta_lr = theta_lr, .strict = strict};
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
  const auto done = work(me, down, local);
  Step<Client, Up> out{{done.trained.weights, true, done.theta},
                       {{done.trained.weights, samples_of(local)}, done.trained.loss},
                       done.trained.loss};
  out.before = (down.mixes && me.trained) || !down.g ? me.own : *down.g;
  out.after = done.trained.weights;
  if (down.mixes) out.notes = {{"a", done.scores.a}, {"b", done.scores.b}};
  return out;
}

FedHam::Server FedHam::aggregate(Server server, std::span<const Received<Up>> uploads,
                                 const Setup&) const {
  std::vector<Weighted> models;
  auto secret = static_cast<uint64_t>(server.secret);
  double sum = 0, total = 0;
  for (const auto& [client, up] : uploads) {
    models.push_back({up.model.value, up.model.weight});
    const double loss = up.loss->value_or(0);
    secret = derive(secret, client, std::bit_cast<uint64_t>(loss));
    sum += up.model.weight * loss, total += up.model.weight;
    if (layers != HamLayers::kSecond) server.models.put(client, up.model.value);
    if (when != "per_client_loss") continue;
    const auto* before = server.losses.find(client);
    server.losses.put(client, continued(before ? *before : no_losses(), loss));
  }
  server.secret = static_cast<int64_t>(secret);
  server.g = mean(models);
  if (when == "loss") server.mean = continued(server.mean, sum / total);
  return server;
}

Status FedHam::check(const Setup& setup) const {
  const int64_t n = setup.clients, parts = rule(n).parts;
  // Two exhibits, and distances where clients are grouped.
  TESSERA_RETURN_IF_ERROR(check_pairs(name(), setup, parts > 1 ? 3 : 2));
  if ((cluster == "none" && k > 1) || (cluster == "meanshift" && k > 0))
    return fail(Error::kInvalid, "{}: k = {} has no meaning with cluster = \"{}\"; remove one",
                name(), k, cluster);
  if (bandwidth > 0 && cluster != "meanshift")
    return fail(Error::kInvalid,
                "{}: bandwidth = {} has no meaning with cluster = \"{}\"; use \"meanshift\"",
                name(), bandwidth, cluster);
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
                "{}: theta_data = \"val\" needs validation data and there are none; raise "
                "data.val or use theta_data = \"hold\"",
                name());
  return ok();
}

std::vector<Exhibit> FedHam::exhibits(const Server& server, const Evaluated& evaluated,
                                      const Setup& setup) const {
  const int64_t n = setup.clients;
  auto attention = at::full({n, n}, NAN, at::kDouble), mixture = at::full({n, 3}, NAN, at::kDouble);
  auto together = at::zeros({n, n}, at::kDouble);
  std::optional<Senders> from;
  std::set<std::set<ClientId>> groups;  // clients that get each other's models
  for (const auto& [id, notes] : evaluated.notes) {
    if (id >= n || !notes.contains("a") || !notes.contains("b")) continue;
    if (!from) from = senders(server, setup);
    const auto others = sent_to(server, *from, {id, Why::kEvaluate});
    const auto &a = notes.at("a"), &b = notes.at("b");
    // A client may tell anything.
    if (a.dim() != 2 || a.size(1) != static_cast<int64_t>(others.size()) || b.dim() != 2 ||
        b.size(1) != 3)
      continue;
    for (size_t j = 0; j < others.size(); ++j) {
      attention[id][others[j]] = a.mean(0)[static_cast<int64_t>(j)];
      together[id][others[j]] = 1;
    }
    std::set<ClientId> group(others.begin(), others.end());
    group.insert(id);
    groups.insert(std::move(group));
    mixture[id] = b.mean(0);
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
  if (rule(n).parts > 1) {
    out.push_back({"clusters", "Whose models a client gets", Exhibit::Kind::kGraph, together});
    out.push_back({"groups",
                   "How many different groups of clients get each other's models",
                   Exhibit::Kind::kMatrix,
                   at::full({1, 1}, static_cast<double>(groups.size()), at::kDouble),
                   {"number of groups"},
                   {"value"}});
  }
  return out;
}

MethodInfo fedham() {
  return describe<FedHam>(
      {.name = "fedham",
       .line = "each client learns to mix others', own and global models",
       .paper = "Gao et al., ACM TIST 2023",
       .equation = "Algorithms 1 and 2, eqs. 4 to 15",
       .section = "5.3",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "model.value.w", .words = "its latest model"},
                               {.tensor = "loss", .what = Tells::kStatistics, .words = "its loss"}},
                    .peers = Shown::kSingle,
                    .sent = "the model of each client of their cluster, without its name",
                    .kept = true},
       .headline = View::kPost,
       .beyond_sgd = kHamBeyond});
}

MethodInfo aml1() {
  return describe<Aml1>(
      {.name = "aml1",
       .line = "fedham without its second layer: the others' models only",
       .paper = "Gao et al., ACM TIST 2023 (ablation)",
       .equation = "ablation: layer 1 alone",
       .section = "5.3.8",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "model.value.w", .words = "its latest model"},
                               {.tensor = "loss", .what = Tells::kStatistics, .words = "its loss"}},
                    .peers = Shown::kSingle,
                    .sent = "the model of each client of their cluster, without its name",
                    .kept = true},
       .headline = View::kPost,
       .beyond_sgd = kHamBeyond});
}

MethodInfo aml2() {
  return describe<Aml2>(
      {.name = "aml2",
       .line = "fedham without its first layer: own and global model only",
       .paper = "Gao et al., ACM TIST 2023 (ablation)",
       .equation = "ablation: layer 2 alone",
       .section = "5.3.8",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "model.value.w", .words = "its latest model"},
                               {.tensor = "loss", .what = Tells::kStatistics, .words = "its loss"}},
                    .peers = Shown::kSum,
                    .sent = "the mean"},
       .headline = View::kPost,
       .beyond_sgd = kHamBeyond});
}

}  // namespace tessera

#include "method/mosaic/mosaic.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/key.hpp"
#include "base/text.hpp"
#include "method/any_method.hpp"
#include "method/mosaic/class_prior.hpp"
#include "tensor/linear_head.hpp"
#include "tensor/orthonormal.hpp"

namespace tessera {
namespace {

constexpr uint64_t kHoldStream = 1;                // of a client's key: which rows are held out
constexpr uint64_t kLocStream = 1, kFtStream = 2;  // of a round's key; g trains with the key itself
constexpr uint64_t kDirectionStream = 3;           // of the initial model's key
constexpr int64_t kMostFeatures = 128;             // that lda sees, unless cov says otherwise

Tensor upper(const Tensor& square) {
  const auto at = at::triu_indices(square.size(0), square.size(0), 0, at::kLong);
  return square.index({at[0], at[1]});
}

Tensor symmetric(const Tensor& triangle, int64_t size) {
  const auto at = at::triu_indices(size, size, 0, at::kLong);
  auto out = at::zeros({size, size}, at::kDouble);
  out.index_put_({at[0], at[1]}, triangle);
  return out + out.triu(1).t();
}

Tensor labels_of(const ClientData& rows) {
  return rows.range(Part::kTrain, 0, rows.train_size()).y;
}

/// Log-probabilities as logits of the run's loss: the multi-label one reads each by a sigmoid.
Tensor as_logits(const Tensor& log_shares, Loss::Kind kind) {
  if (kind == Loss::Kind::kCrossEntropy) return log_shares.to(at::kFloat);
  constexpr double kAlmost = -1e-9;
  const auto sure = log_shares.clamp_max(kAlmost);
  return (sure - at::log1p(-sure.exp())).to(at::kFloat);
}

/// Share of rows that each expert gets right, then the pool: float64 [experts + 1].
Tensor accuracies(const Tensor& logits, const Tensor& pool, const Tensor& y) {
  const auto right = [&](const Tensor& scores) {
    return scores.argmax(-1).eq(y).to(at::kDouble).mean(-1);
  };
  return at::cat({right(logits), right(pool).view({1})});
}

}  // namespace

ExpertNames Mosaic::names() const { return comma_list(experts); }

MomentShape Mosaic::shape(const Model& model) const {
  const auto head = *linear_head(model.layout());
  const int64_t p = has_expert(names(), "lda") ? head.width : 0;
  return {head.classes, cov == "auto" ? std::min(p, kMostFeatures) : p, cov == "diag"};
}

HeldRows Mosaic::rows_of(const Local& local) const {
  const auto key = derive(local.setup.key, Purpose::kClient, local.client, kHoldStream);
  const auto n = static_cast<double>(std::max<int64_t>(local.data.train_size(), 1));
  const double share = most_held > 0 ? std::min(hold, static_cast<double>(most_held) / n) : hold;
  return hold_rows(local.data, share, key);
}

int64_t Mosaic::follows(const Model& model) const {
  const int64_t classes = linear_head(model.layout())->classes;
  return has_expert(names(), "last") ? kBinsOfAClass * classes * classes : 0;
}

FeatureMap Mosaic::features(const Setup& setup) const {
  const int64_t p = shape(setup.model).p, width = linear_head(setup.model.layout())->width;
  if (p == 0 || p == width) return {p};
  return {p, orthonormal(p, width, derive(setup.key, Purpose::kInit, kDirectionStream))};
}

Mosaic::Server Mosaic::init_server(const Setup& setup) const {
  const auto n = std::ssize(names());
  const auto form = shape(setup.model);
  auto moments = form.unknown();
  if (const int64_t counts = follows(setup.model); counts > 0)
    moments.follows =
        follow_shares(at::zeros({counts / form.classes, form.classes}, at::kDouble)).to(at::kFloat);
  return {setup.model.init(setup.key), 0, moments, first_fit(n), at::ones({n}, at::kDouble)};
}

void Mosaic::broadcast(const Server& server, std::span<const Ask<>> asks, const Setup& setup,
                       const Send<Down>& send) const {
  const auto plan = schedule(setup);
  const auto due = plan.due(setup.round, server.done);
  for (const auto& ask : asks) {
    const bool judged = ask.why != Why::kTrain;
    const bool weighed = judged || plan.weighs(due, server.done);
    Down down{server.g, static_cast<int64_t>(judged ? Exchange::kNone : due)};
    if ((weighed || due == Exchange::kTemperatures) && server.done > 0)
      down.moments = server.moments;
    if (weighed) down.beta = server.fit.beta, down.temperature = server.temperature;
    send(ask, std::move(down));
  }
}

Mosaic::Sums Mosaic::blank_sums(const Server& server, const Setup& setup) const {
  const auto plan = schedule(setup);
  const auto due = plan.due(setup.round, server.done);
  const auto e = std::ssize(names());
  Sums out;
  if (due == Exchange::kMoments || due == Exchange::kClosing) {
    out.moments = at::zeros({shape(setup.model).numel()});
    if (const int64_t n = follows(setup.model); n > 0) out.follows = at::zeros({n});
  }
  if (due == Exchange::kTemperatures) out.losses = at::zeros({e * tried_temperatures().numel()});
  if (plan.weighs(due, server.done))
    out.gradient = at::zeros({e}), out.hessian = at::zeros({e * (e + 1) / 2});
  return out;
}

bool Mosaic::balances(const Setup& setup) const {
  return balanced == "always" || (balanced == "partial" && setup.participation < 1);
}

Weights Mosaic::for_client(const Weights& g, const ClientData& data, const Setup& setup,
                           int sign) const {
  return balances(setup) ? shifted(g, sign * balanced_shift(class_totals(data), kPoolPrior)) : g;
}

Weights Mosaic::tuned(const Weights& g, const ClientData& data, const Local& local) const {
  constexpr double kLeastRate = 0.2;  // of the first: late rounds may have decayed to nothing
  auto options = train;
  options.lr = std::max(train.lr_at(local.round), kLeastRate * train.lr), options.lr_decay = 1;
  const Site site{local.model, data, local.round, derive(local.key, kFtStream)};
  return local_sgd(for_client(g, data, local.setup, 1), site, options,
                   {.epochs = ft_times * train.epochs})
      .weights;
}

Mosaic::Frozen Mosaic::freeze(const Client& me, const Weights& g, const HeldRows& rows,
                              const Local& local) const {
  const auto form = shape(local.model);
  const auto map = features(local.setup);
  Networks nets{g, std::nullopt, std::nullopt};
  if (has_expert(names(), "ft")) nets.ft = tuned(g, rows.kept, local);
  if (has_expert(names(), "loc")) nets.loc = me.loc;
  const int64_t n = rows.held.train_size();
  Frozen out{at::full({3, n, form.classes}, NAN, at::kFloat), at::empty({n, form.p}),
             class_sums(training_features(local.model, g, rows.kept, map), form)};
  const auto& last = local.data.last_label;
  if (follows(local.model) > 0 && last) {
    out.follows = follow_counts(rows.kept);
    out.bins = at::empty({n}, at::kLong);
  }
  if (n == 0) return out;
  const auto x = rows.held.range(Part::kTrain, 0, n).x;
  if (out.bins) out.bins = last_bins(*last, x);
  const auto seen = nets.read(local.model, x, map);
  out.logits[0].copy_(seen.g);
  if (seen.ft.defined()) out.logits[1].copy_(seen.ft);
  if (seen.loc.defined()) out.logits[2].copy_(seen.loc);
  if (form.p > 0) out.features = seen.features.clone();
  return out;
}

Tensor Mosaic::held_logits(const FeatureMoments& moments, const Frozen& frozen,
                           const Setup& setup) const {
  auto reader = make_reader(names(), moments, frozen.own, k, true, balances(setup));
  Readings seen{frozen.logits[0], frozen.logits[1], frozen.logits[2], frozen.features};
  if (frozen.follows && frozen.bins && moments.follows) {
    reader.follows = log_follow_shares(*frozen.follows, *moments.follows, k);
    seen.bins = *frozen.bins;
  }
  return reader.logits(seen);
}

Mosaic::Sums Mosaic::sums_of(const Down& down, const std::optional<Frozen>& frozen,
                             const HeldRows& rows, const Local& local) const {
  const auto exchange = static_cast<Exchange>(down.exchange);
  const double weight = std::max(samples_of(local), 1.0);
  const auto over = [&](const Tensor& sum) { return (sum.flatten() / weight).to(at::kFloat); };
  Sums out;
  if (exchange == Exchange::kMoments || exchange == Exchange::kClosing) {
    const auto& counted = exchange == Exchange::kMoments ? rows.kept : local.data;
    const auto phi = training_features(local.model, down.g, counted, features(local.setup));
    out.moments = over(moment_sums(phi, shape(local.model)));
    if (follows(local.model) > 0) out.follows = over(follow_counts(counted));
  }
  if (!down.moments) return out;
  const auto logits = held_logits(*down.moments, *frozen, local.setup);
  const auto y = labels_of(rows.held);
  if (exchange == Exchange::kTemperatures) out.losses = over(temperature_losses(logits, y));
  if (down.beta) {
    const auto shares = expert_log_shares(logits, down.temperature.value());
    const auto slope = pool_slope(shares, y, *down.beta);
    out.gradient = over(slope.gradient), out.hessian = over(upper(slope.hessian));
  }
  return out;
}

Step<Mosaic::Client, Mosaic::Up> Mosaic::local_update(const Client& me, const Down& down,
                                                      const Local& local) const {
  const auto exchange = static_cast<Exchange>(down.exchange);
  const auto rows = rows_of(local);
  const auto& mine = schedule(local.setup).holds(local.round) ? rows.kept : local.data;
  Step<Client, Up> out{{me.loc, std::nullopt, me.beta}, {{}, samples_of(local)}};
  // Experts are judged as they were before the held-out rows were first trained on.
  std::optional<Frozen> frozen = me.frozen;
  if (!frozen && (exchange == Exchange::kMoments || down.moments))
    frozen = freeze(me, down.g, rows, local);
  out.upload.value.sums = sums_of(down, frozen, rows, local);
  if (exchange != Exchange::kNone && exchange != Exchange::kClosing) out.next.frozen = frozen;
  if (weights == "own" && down.beta && !me.beta)  // what it follows from is frozen
    out.next.beta = best_beta(expert_log_shares(held_logits(*down.moments, *frozen, local.setup),
                                                down.temperature.value()),
                              labels_of(rows.held));
  const bool anew = restart && exchange == Exchange::kMoments;
  if (has_expert(names(), "loc")) {
    const Site alone{local.model, mine, local.round, derive(local.key, kLocStream)};
    const auto own =
        local_sgd(me.loc && !anew ? *me.loc : local.model.init(local.setup.key), alone, train);
    out.next.loc = own.weights, out.loss = own.loss;
  }
  if (exchange != Exchange::kClosing) {
    const auto start = anew ? local.model.init(local.setup.key) : down.g;
    const auto trained = local_sgd(for_client(start, mine, local.setup, 1),
                                   Site{local.model, mine, local.round, local.key}, train);
    out.upload.value.model = for_client(trained.weights, mine, local.setup, -1);
    out.loss = trained.loss;
  }
  return out;
}

Mosaic::Up Mosaic::expected(const Server& server, Why, const Setup& setup) const {
  const bool closing = schedule(setup).due(setup.round, server.done) == Exchange::kClosing;
  Up out{{{}, blank_sums(server, setup)}};
  if (!closing) out.value.model = server.g;
  return out;
}

Mosaic::Server Mosaic::aggregate(Server server, const Sum<Up>& sum, const Setup& setup) const {
  const auto due = schedule(setup).due(setup.round, server.done);
  const auto& [model, sums] = sum->value;
  const auto total = [&](const Tensor& mean) {
    return mean.to(at::kDouble) * static_cast<double>(sum->weight);
  };
  const auto e = std::ssize(names());
  if (model) server.g = *model;
  if (sums.moments) {
    const auto form = shape(setup.model);
    server.moments = moments_of(total(*sums.moments), form);
    if (sums.follows)
      server.moments.follows =
          follow_shares(total(*sums.follows).view({-1, form.classes})).to(at::kFloat);
  }
  if (sums.losses) server.temperature = best_temperatures(total(*sums.losses).view({e, -1}));
  if (sums.gradient) {
    const PoolSlope found{0, total(*sums.gradient), symmetric(total(*sums.hessian), e)};
    server.fit = newton_step(server.fit, found, 1 - setup.participation);
  }
  // A closing round without a fit before it still makes the moments known.
  if (due != Exchange::kNone && (due != Exchange::kClosing || server.done == 0)) ++server.done;
  return server;
}

Personal Mosaic::personalize(const Client& me, const Down& down, const Local& local,
                             View view) const {
  const auto form = shape(local.model);
  Networks nets{down.g, std::nullopt, std::nullopt};
  if (view == View::kPost && has_expert(names(), "ft")) nets.ft = tuned(down.g, local.data, local);
  if (has_expert(names(), "loc")) nets.loc = me.loc;
  const bool known = down.moments.has_value();
  const auto all = known ? *down.moments : form.unknown();
  const auto map = known ? features(local.setup) : FeatureMap{};
  const auto phi = training_features(local.model, down.g, local.data, map);
  auto reader = make_reader(names(), all, class_sums(phi, form), k, known, balances(local.setup));
  const auto last = all.follows ? local.data.last_label : nullptr;
  if (last) reader.follows = log_follow_shares(follow_counts(local.data), *all.follows, k);
  const auto pool = [&model = local.model, nets, reader, map, last,
                     beta = me.beta ? *me.beta : down.beta.value(),
                     temperature = down.temperature.value()](const Tensor& x) {
    auto seen = nets.read(model, x, map);
    if (last) seen.bins = last_bins(*last, x);
    const auto logits = reader.logits(seen);
    const auto there = without_missing(beta, reader.there(seen));
    return std::pair(logits, pooled_log_shares(expert_log_shares(logits, temperature), there));
  };
  Personal out{[pool, kind = train.loss_kind().kind](const Tensor& x) {
                 return as_logits(pool(x).second, kind);
               },
               std::nullopt};
  if (const int64_t n = local.data.size(Part::kVal); n > 0 && view == View::kPost) {
    const auto rows = local.data.range(Part::kVal, 0, n);
    const auto [logits, together] = pool(rows.x);
    out.notes = {{"accuracy", accuracies(logits, together, rows.y)}};
  }
  return out;
}

std::vector<Exhibit> Mosaic::exhibits(const Server& server, const Evaluated& evaluated,
                                      const Setup& setup) const {
  auto columns = names();
  const auto e = std::ssize(columns);
  std::vector<Exhibit> out{{.name = "pool",
                            .title = "Weights and temperatures of the experts",
                            .value = at::stack({server.fit.beta, server.temperature}),
                            .rows = {"weight", "temperature"},
                            .columns = columns}};
  auto right = at::full({setup.clients, e + 1}, NAN, at::kDouble);
  bool told = false;
  for (const auto& [id, notes] : evaluated.notes) {
    const auto found = notes.find("accuracy");
    // A client may tell anything.
    if (id >= setup.clients || found == notes.end() || !found->second.sizes().equals({e + 1}))
      continue;
    right[id].copy_(found->second), told = true;
  }
  columns.push_back("pool");
  if (told)
    out.push_back({.name = "experts",
                   .title = "Accuracy of a client's experts on its validation samples",
                   .value = right,
                   .columns = columns});
  return out;
}

Status Mosaic::check(const Setup& setup) const {
  static const ExpertNames kAll{"g", "pri", "ft", "loc", "lda", "last"};
  const auto mine = names();
  for (const auto& name : mine)
    if (!has_expert(kAll, name))
      return fail(Error::kInvalid, "{}: there is no expert '{}'; method.experts knows {}", called,
                  name, join(kAll, ", "));
  if (mine.empty() || std::set<std::string>(mine.begin(), mine.end()).size() != mine.size())
    return fail(Error::kInvalid, "{}: method.experts must name at least one expert, each once",
                called);
  if (!linear_head(setup.model.layout()) || !setup.model.has_features())
    return fail(
        Error::kInvalid,
        "{} reads features off the linear layer that ends a model, but this one has none; set "
        "model.name to another (see `tessera models`)",
        called);
  if (restart && setup.participation < 1)
    return fail(
        Error::kInvalid,
        "{}: method.restart needs everybody in every round; set federation.participation = 1",
        called);
  if (train.class_weights == "none") return ok();
  return fail(
      Error::kInvalid,
      "{} counts on class shares, which train.class_weights = \"balanced\" takes out of the "
      "global model; set train.class_weights = \"none\"",
      called);
}

Status Mosaic::check(const Client& me, const Setup& setup) const {
  const auto form = shape(setup.model);
  const auto is = [](const Tensor& t, at::ScalarType type, at::IntArrayRef sizes) {
    return t.scalar_type() == type && t.sizes().equals(sizes);
  };
  const int64_t d = setup.model.layout().numel(), d_b = setup.model.buffers().numel();
  if (me.loc && !(is(me.loc->w, at::kFloat, {d}) && is(me.loc->b, at::kFloat, {d_b})))
    return fail(Error::kInvalid, "{}: a client's own model must have {} parameters", called, d);
  if (me.beta && !is(*me.beta, at::kDouble, {std::ssize(names())}))
    return fail(Error::kInvalid, "{}: a client's own weights must be {}", called, names().size());
  if (!me.frozen) return ok();
  const auto& [logits, features, own, bins, after] = *me.frozen;
  const int64_t n = logits.dim() == 3 ? logits.size(1) : -1, most = kBinsOfAClass * form.classes;
  const bool past = !bins || (is(*bins, at::kLong, {n}) && bins->ge(0).all().item<bool>() &&
                              bins->lt(most).all().item<bool>());
  if (is(logits, at::kFloat, {3, n, form.classes}) && is(features, at::kFloat, {n, form.p}) &&
      is(own.counts, at::kDouble, {form.classes}) &&
      is(own.sums, at::kDouble, {form.classes, form.p}) && past &&
      (!after || is(*after, at::kDouble, {most, form.classes})))
    return ok();
  return fail(Error::kInvalid, "{}: what a client kept of its held-out rows does not fit", called);
}

MethodInfo mosaic() {
  return describe<Mosaic>(
      {.name = "mosaic",
       .line = "a pool of five experts whose weights the federation learns",
       .paper = "-",
       .section = "12.2",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.model.w", .words = "its trained model"},
                               {.tensor = "value.sums.moments",
                                .words = "class counts and sums of its features",
                                .only = "once the pool is fitted"},
                               {.tensor = "value.sums.follows",
                                .words = "which classes followed which values",
                                .only = "with expert last, once the pool is fitted"},
                               {.tensor = "value.sums.losses",
                                .words = "sums over held-out samples",
                                .only = "once the pool is fitted"},
                               {.tensor = "value.sums.gradient",
                                .words = "slopes of the pool's loss on them",
                                .only = "once the pool is fitted"},
                               {.tensor = "value.sums.hessian",
                                .words = "its curvature",
                                .only = "once the pool is fitted"}},
                    .peers = Shown::kSum,
                    .sent = "the mean model and the sums of all",
                    .stays = "its own model"},
       .headline = View::kPost,
       .beyond_sgd = "sends moments of a client's features beside its model"});
}

}  // namespace tessera

// Our own methods (docs/methods.md §12).

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

#include "method/mosaic/held_rows.hpp"
#include "method/mosaic/pool.hpp"
#include "support/napkin.hpp"
#include "tensor/orthonormal.hpp"

namespace tessera::test {
namespace {

/// Logits a x + b for each of two classes: a network that is all head, whose features are x itself.
class LineModel final : public Model {
 public:
  LineModel() : layout_({{"head.weight", {2, 1}, Role::kHead}, {"head.bias", {2}, Role::kHead}}) {}
  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return buffers_; }
  Weights init(uint64_t) const override {
    return {at::tensor({0.5F, -0.25F, 0.1F, 0.0F}), at::empty({0})};
  }
  Output forward(const Weights& at, const Tensor& x, const Pass&) const override {
    const auto z = x.view({-1, 1});
    return {z * at.w.slice(0, 0, 2).view({1, 2}) + at.w.slice(0, 2), z, at.b};
  }

 private:
  Layout layout_, buffers_;
};

/// Two clients: one sample of class 0; three samples, one of class 1. And a newcomer like the
/// second.
Toy line_toy(ToyOptions options) {
  options.train.lr = 0.2, options.train.batch = 100;
  Federation data;
  data.sample_shape = {1}, data.classes = 2;
  data.clients = {napkin_client(kNapkinA.x, kNapkinA.y), napkin_client(kNapkinB.x, kNapkinB.y)};
  data.newcomers = {napkin_client(kNapkinB.x, kNapkinB.y)};
  return Toy(std::move(data), std::make_shared<LineModel>(), options);
}

Tensor predicted(const Toy& toy, const TensorDict& server, ClientId id, const Tensor& x,
                 View view = View::kPre) {
  const auto down = toy.download(server, id, Why::kEvaluate);
  const auto state = id < std::ssize(toy.federation.clients) ? toy.state(id) : toy.fresh(id);
  return toy.personal(state, down, toy.local(id), view).predict(x);
}

const Tensor kAsked = at::tensor({-5.0F, 0.0F, 7.0F}).view({3, 1});

// The federation has classes 0, 1, 0, 0: shares 3/4 and 1/4.
TEST(Prior, AddsAClientsOwnClassFrequencies) {
  auto toy = line_toy({.method = "prior"});
  toy.play(1, 1);
  const auto z = toy.model->predict(*toy.global(toy.server()), kAsked);
  const auto added = [&](ClientId id, View view) {
    return (predicted(toy, toy.server(), id, kAsked, view) - z).to(at::kDouble);
  };
  for (const View view : {View::kPre, View::kPost}) {
    // One sample of class 0, and one more that is believed: 1.75 / 2 and 0.25 / 2.
    EXPECT_NEAR(added(0, view)[1][0].item<double>(), std::log(1.75 / 2 / 0.751), 2e-6);
    EXPECT_NEAR(added(0, view)[1][1].item<double>(), std::log(0.25 / 2 / 0.251), 2e-6);
    // The newcomer: (2 + 3/4) / 4 and (1 + 1/4) / 4.
    EXPECT_NEAR(added(2, view)[0][0].item<double>(), std::log(2.75 / 4 / 0.751), 2e-6);
    EXPECT_NEAR(added(2, view)[2][1].item<double>(), std::log(1.25 / 4 / 0.251), 2e-6);
  }
}

TEST(Prior, ClassesAreEqualBeforeAnybodyWasCounted) {
  const auto toy = line_toy({.method = "prior", .numbers = {{"a", 2}}});
  const auto z = toy.model->predict(*toy.global(toy.server()), kAsked);
  const auto added = (predicted(toy, toy.server(), 0, kAsked) - z).to(at::kDouble);
  EXPECT_NEAR(added[0][0].item<double>(), std::log(2.0 / 3 / 0.501), 2e-6);
}

TEST(Prior, TrainsAsFedAvgDoes) {
  auto options = noisy("prior");
  options.federation.participation = 0.5;
  auto ours = make_toy(options);
  options.method = "fedavg";
  auto theirs = make_toy(options);
  ours.play(1, 3), theirs.play(1, 3);
  EXPECT_TRUE(ours.global(ours.server())->w.equal(theirs.global(theirs.server())->w));
}

TEST(Prior, CountsTheSamplesOfEveryCohort) {
  auto toy = line_toy({.method = "prior"});
  toy.play(1, 3);
  EXPECT_TRUE(at::allclose(toy.server().at("counts"), at::tensor({9.0, 3.0}, at::kDouble)));
}

TEST(Prior, IsRefusedWhereClassSharesMeanNothing) {
  TrainOptions train;
  train.class_weights = "balanced";
  const auto toy = line_toy({.method = "fedavg"});
  for (const char* name : {"prior", "mosaic"}) {
    const auto status = find_method(name)->draft()->build(train)->check(toy.setup());
    EXPECT_EQ(error_of(status), Error::kInvalid);
    EXPECT_THAT(message(status), ::testing::HasSubstr("set train.class_weights = \"none\""));
  }
}

/// Twelve rounds: six that hold rows out, moments, temperatures, and four Newton steps, the last
/// of them beside the closing moments.
ToyOptions twelve() {
  ToyOptions out{.method = "mosaic", .numbers = {{"fit_at", 0.5}}};
  out.train.batch = 8, out.train.lr = 0.1, out.rounds = 12;
  return out;
}

/// The server's state with all weight on one expert and these temperatures.
TensorDict only(const Toy& toy, int64_t expert, double temperature = 1) {
  auto out = toy.server();
  out["fit.beta"] = at::one_hot(at::tensor(expert), 5).view({5}).to(at::kDouble);
  out["temperature"] = at::full({5}, temperature, at::kDouble);
  return out;
}

void expect_shares(const Tensor& logits, const Tensor& wanted, const char* what) {
  const auto gap = (logits.to(at::kDouble).softmax(1) - wanted.to(at::kDouble).softmax(1)).abs();
  EXPECT_LT(gap.max().item<double>(), 5e-6) << what;
}

TEST(Mosaic, AllWeightOnOneExpertIsThatExpert) {
  auto toy = make_toy(twelve());
  toy.play(1, 12);
  const ClientId id = 1;
  const auto g = *toy.global(toy.server());
  const auto local = toy.local(id);
  const auto x = local.data.range(Part::kTest, 0, 6).x;
  const auto z = toy.model->predict(g, x).to(at::kDouble);
  const auto shown = [&](int64_t e, double t = 1) {
    return predicted(toy, only(toy, e, t), id, x, View::kPost);
  };
  expect_shares(shown(0), z, "g");
  expect_shares(shown(0, 2), z / 2, "g at temperature 2");

  // The closing round counted every training sample.
  auto all = at::zeros({3}, at::kDouble);
  for (const auto& client : toy.federation.clients)
    all += at::tensor(client.class_counts(Part::kTrain), at::kDouble);
  const auto pi = all / all.sum(), own = at::tensor(local.data.class_counts(Part::kTrain)) * 1.0;
  expect_shares(shown(1), z + ((own + pi) / (own.sum() + 1)).log() - (pi + 1e-3).log(), "pri");

  const auto state = toy.state(id);
  expect_shares(shown(3), toy.model->predict({state.at("loc.w"), state.at("loc.b")}, x), "loc");

  // lda, from everybody's samples at once.
  const auto features = [&](const ClientData& data) {
    const auto rows = data.range(Part::kTrain, 0, data.train_size());
    return Examples{toy.model->forward(g, rows.x, Pass{}).features.to(at::kDouble), rows.y};
  };
  const int64_t p = 100;
  auto sums = at::zeros({3, p}, at::kDouble), mine = at::zeros({3, p}, at::kDouble);
  for (const auto& client : toy.federation.clients)
    sums.index_add_(0, features(client).y, features(client).x);
  mine.index_add_(0, features(local.data).y, features(local.data).x);
  const auto means = sums / all.view({3, 1});
  auto within = at::zeros({p, p}, at::kDouble);
  for (const auto& client : toy.federation.clients) {
    const auto rows = features(client);
    const auto apart = rows.x - means.index_select(0, rows.y);
    within += apart.t().mm(apart);
  }
  within = within / all.sum();
  within = 0.9 * within + 0.1 * within.trace() / p * at::eye(p, at::kDouble);
  const auto m = (mine + 20 * means) / (own.view({3, 1}) + 20);
  const auto directions = at::inverse(within).mm(m.t());
  const auto phi = toy.model->forward(g, x, Pass{}).features.to(at::kDouble);
  const auto scores = phi.mm(directions) - (m * directions.t()).sum(1) / 2 +
                      ((own + 0.5 * pi) / (own.sum() + 0.5)).log();
  const auto gap = (shown(4).to(at::kDouble).softmax(1) - scores.softmax(1)).abs();
  EXPECT_LT(gap.max().item<double>(), 1e-3) << "moments travel as float32";

  // ft: five epochs from g under a key of its own, at the rate of the round.
  const Site site{*toy.model, local.data, 1, derive(local.key, 2)};
  expect_shares(shown(2),
                toy.model->predict(local_sgd(g, site, twelve().train, {.epochs = 5}).weights, x),
                "ft");
}

// A hidden layer of 150: everybody's features along the same 128 directions.
TEST(Mosaic, OfManyFeaturesCommonDirectionsAreSeen) {
  auto data = toy_federation(4, 0, 60);
  const ModelOptions wide{.name = "mlp", .hidden = {150}};
  auto net = *make_model(wide, {data.sample_shape, data.classes});
  auto options = twelve();
  options.rounds = 4, options.numbers = {};
  Toy toy(std::move(data), std::move(net), options);
  toy.play(1, 3);
  const auto last = toy.play(4, 4).at(0);
  EXPECT_EQ(last.bytes_up, 4 * 4 * (3 + 3 * 128 + 128 * 129 / 2 + 5 + 15));
  const auto server = toy.server();
  auto sum = at::zeros({128}), n = at::zeros({1});
  for (const auto& client : toy.federation.clients) {
    const auto rows = client.range(Part::kTrain, 0, client.train_size());
    const auto phi = toy.model->forward(*toy.global(server), rows.x, Pass{}).features;
    const auto of_class = rows.y.eq(1).to(at::kFloat);
    const auto directions = orthonormal(128, 150, derive(toy.setup().key, Purpose::kInit, 3));
    sum += directions.mv(phi.t().mv(of_class)), n += of_class.sum();
  }
  EXPECT_TRUE(at::allclose(server.at("moments.means")[1], sum / n, 1e-4, 1e-5));
  for (const auto& client : toy.evaluate(4).clients)
    EXPECT_TRUE(std::isfinite(client.post_test.loss));
}

TEST(Mosaic, WhoIsNotThereIsLeftOut) {
  auto toy = make_toy(twelve());
  toy.play(1, 12);
  auto server = toy.server();
  server["fit.beta"] = at::tensor({0.25, 0.0, 0.0, 0.5, 0.0}, at::kDouble);
  server["temperature"] = at::ones({5}, at::kDouble);
  const auto x = toy.local(0).data.range(Part::kTest, 0, 6).x;
  // A newcomer has no loc: three quarters for g. And ft is not for the view before training.
  const auto z = toy.model->predict(*toy.global(server), x);
  expect_shares(predicted(toy, server, 4, x, View::kPost), 0.75 * z, "loc");
  server["fit.beta"] = at::tensor({0.25, 0.0, 0.5, 0.0, 0.0}, at::kDouble);
  expect_shares(predicted(toy, server, 1, x, View::kPre), 0.75 * z, "ft");
}

TEST(Mosaic, RoundsTrainOnKeptRowsAndTheLastOneMeasures) {
  auto options = twelve();
  auto toy = make_toy(options);
  toy.play(1, 1);
  // By hand: FedAvg and a model alone on the rows that are not held out.
  std::vector<Weighted> parts;
  for (ClientId id = 0; id < 4; ++id) {
    const auto key = derive(toy.session->seed(), Purpose::kLocal, 1, id);
    const auto local = toy.local(id, 1, key);
    const auto kept =
        hold_rows(local.data, 0.2, derive(local.setup.key, Purpose::kClient, id, 1)).kept;
    EXPECT_NEAR(static_cast<double>(kept.train_size()), 28.8, 1);
    const auto first = toy.model->init(local.setup.key);
    parts.push_back({local_sgd(first, Site{*toy.model, kept, 1, key}, options.train).weights, 36});
    const auto alone = local_sgd(first, Site{*toy.model, kept, 1, derive(key, 1)}, options.train);
    EXPECT_TRUE(toy.state(id).at("loc.w").equal(alone.weights.w));
  }
  EXPECT_TRUE(at::allclose(toy.global(toy.server())->w, mean(parts).w, 1e-5, 1e-7));
  toy.play(2, 11);
  const auto before = toy.server();
  EXPECT_EQ(before.at("done").item<int64_t>(), 5);
  const auto last = toy.play(12, 12).at(0);
  EXPECT_TRUE(toy.server().at("g.w").equal(before.at("g.w")));
  EXPECT_EQ(last.bytes_up, 4 * 4 * (3 + 300 + 100 * 101 / 2 + 5 + 15));
  EXPECT_FALSE(toy.state(0).contains("frozen.logits"));
}

// What all clients together lose on their held-out rows, at what they froze, is least at the
// server's weights: every way off is worse.
TEST(Mosaic, TheWeightsAreTheBestOfTheFederation) {
  auto options = twelve();
  options.rounds = 24;  // nine Newton steps before the last round
  options.numbers.emplace_back("ft_times", 1);
  options.words = {{"experts", "g,ft,loc"}};
  auto toy = make_toy(options);
  toy.play(1, 23);
  const auto server = toy.server();
  const auto beta = server.at("fit.beta");
  const auto objective = [&](const Tensor& weights) {
    double loss = (weights - 1.0 / 3).square().sum().item<double>() / 2;
    for (ClientId id = 0; id < 4; ++id) {
      const auto local = toy.local(id);
      const auto held =
          hold_rows(local.data, 0.2, derive(local.setup.key, Purpose::kClient, id, 1)).held;
      const auto y = held.range(Part::kTrain, 0, held.train_size()).y;
      const auto shares =
          expert_log_shares(toy.state(id).at("frozen.logits"), server.at("temperature"));
      loss += pool_slope(shares, y, weights).loss;
    }
    return loss;
  };
  const double here = objective(beta);
  for (int64_t e = 0; e < 3; ++e)
    for (const double off : {-1e-2, 1e-2}) {
      auto moved = beta.clone();
      moved[e] += off;
      EXPECT_GT(objective(moved), here) << e << ", " << off;
    }
  EXPECT_GT((beta - 1.0 / 3).abs().max().item<double>(), 0.05) << "and not where they began";
}

// As above, but of each client alone; and what it predicts follows from its own.
TEST(Mosaic, AClientsOwnWeightsAreTheBestOnItsOwnRows) {
  auto options = twelve();
  options.words = {{"experts", "g,loc"}, {"weights", "own"}};
  auto toy = make_toy(options);
  toy.play(1, 11);
  const auto temperature = toy.server().at("temperature");
  for (ClientId id = 0; id < 4; ++id) {
    const auto local = toy.local(id);
    const auto held =
        hold_rows(local.data, 0.2, derive(local.setup.key, Purpose::kClient, id, 1)).held;
    const auto y = held.range(Part::kTrain, 0, held.train_size()).y;
    const auto frozen = toy.state(id).at("frozen.logits");
    const auto shares = expert_log_shares(at::stack({frozen[0], frozen[2]}), temperature);
    const auto beta = toy.state(id).at("beta");
    const auto objective = [&](const Tensor& weights) {
      return pool_slope(shares, y, weights).loss +
             (weights - 0.5).square().sum().item<double>() / 2;
    };
    for (int64_t e = 0; e < 2; ++e)
      for (const double off : {-1e-3, 1e-3}) {
        auto moved = beta.clone();
        moved[e] += off;
        EXPECT_GT(objective(moved), objective(beta)) << id << ", " << e << ", " << off;
      }
  }
  toy.play(12, 12);
  auto state = toy.state(1);
  const auto x = toy.local(1).data.range(Part::kTest, 0, 6).x;
  const auto down = toy.download(toy.server(), 1, Why::kEvaluate);
  state["beta"] = at::tensor({0.0, 1.0}, at::kDouble);
  const Weights loc{state.at("loc.w"), state.at("loc.b")};
  expect_shares(toy.personal(state, down, toy.local(1), View::kPost).predict(x),
                toy.model->predict(loc, x) / temperature[1].item<double>(), "loc");
}

// One step of everybody: the gradient is that of logits with the logarithms of the client's class
// shares beside them, and these are no part of what is averaged.
TEST(Mosaic, ABalancedModelLearnsBesideClassShares) {
  ToyOptions options{
      .method = "mosaic", .numbers = {{"hold", 0.01}}, .words = {{"balanced", "always"}}};
  options.rounds = 12;
  auto toy = line_toy(options);
  const auto start = toy.model->init(0).w.to(at::kDouble);
  toy.play(1, 1);
  auto sum = at::zeros({4}, at::kDouble);
  for (const ClientId id : {0, 1}) {
    const auto local = toy.local(id);
    const auto kept =
        hold_rows(local.data, 0.01, derive(local.setup.key, Purpose::kClient, id, 1)).kept;
    const auto rows = kept.range(Part::kTrain, 0, kept.train_size());
    const auto x = rows.x.view({-1, 1}).to(at::kDouble);
    const auto y = at::one_hot(rows.y, 2).to(at::kDouble);
    const auto shares = (y.sum(0) + 0.5) / (y.sum() + 1);
    const auto z = x * start.slice(0, 0, 2).view({1, 2}) + start.slice(0, 2) + shares.log();
    const auto off = (z.softmax(1) - y) / static_cast<double>(kept.train_size());
    const auto n = static_cast<double>(local.data.train_size());
    sum += n * (start - 0.2 * at::cat({(off * x).sum(0), off.sum(0)}));
  }
  EXPECT_TRUE(at::allclose(toy.server().at("g.w").to(at::kDouble), sum / 4, 1e-6, 1e-6));
}

// pri adds the shares again, and ft trains on from there.
TEST(Mosaic, ExpertsOfABalancedModelHaveTheClientsShares) {
  auto options = twelve();
  options.words = {{"balanced", "always"}};
  auto toy = make_toy(options);
  toy.play(1, 12);
  const ClientId id = 1;
  const auto local = toy.local(id);
  auto g = *toy.global(toy.server());
  const auto x = local.data.range(Part::kTest, 0, 6).x;
  const auto own = at::tensor(local.data.class_counts(Part::kTrain)) * 1.0;
  const auto shares = ((own + 1.0 / 3) / (own.sum() + 1)).log();
  const auto shown = [&](int64_t e) { return predicted(toy, only(toy, e), id, x, View::kPost); };
  expect_shares(shown(0), toy.model->predict(g, x), "g");
  expect_shares(shown(1), toy.model->predict(g, x).to(at::kDouble) + shares, "pri");
  g.w = g.w.clone();
  g.w.slice(0, g.w.numel() - 3).add_(shares);
  const Site site{*toy.model, local.data, 1, derive(local.key, 2)};
  expect_shares(shown(2),
                toy.model->predict(local_sgd(g, site, options.train, {.epochs = 5}).weights, x),
                "ft");
}

// "partial" is "always" where a part of the clients takes part in a round, and "never" elsewhere.
TEST(Mosaic, BalancesWhereAPartTakesPart) {
  const auto learned = [](const char* balanced, double participation) {
    auto options = twelve();
    options.words = {{"balanced", balanced}};
    options.federation.participation = participation;
    auto toy = make_toy(options);
    toy.play(1, 3);
    return toy.server().at("g.w");
  };
  for (const double part : {0.5, 1.0}) {
    const auto partial = learned("partial", part);
    EXPECT_EQ(partial.equal(learned("always", part)), part < 1) << part;
    EXPECT_EQ(partial.equal(learned("never", part)), part == 1) << part;
  }
}

TEST(Mosaic, ARestartTrainsFromTheInitialModelOnAllRows) {
  auto options = twelve();
  options.numbers.emplace_back("restart", 1);
  auto toy = make_toy(options);
  toy.play(1, 7);  // six that hold rows out, then the moments
  std::vector<Weighted> parts;
  for (ClientId id = 0; id < 4; ++id) {
    const auto key = derive(toy.session->seed(), Purpose::kLocal, 7, id);
    const auto local = toy.local(id, 7, key);
    const auto first = toy.model->init(local.setup.key);
    const Site site{*toy.model, local.data, 7, key};
    parts.push_back({local_sgd(first, site, options.train).weights, 36});
    const Site alone{*toy.model, local.data, 7, derive(key, 1)};
    EXPECT_TRUE(toy.state(id).at("loc.w").equal(local_sgd(first, alone, options.train).weights.w));
  }
  EXPECT_TRUE(at::allclose(toy.global(toy.server())->w, mean(parts).w, 1e-5, 1e-7));
}

TEST(Mosaic, WhatIsNotLearnedStaysAtItsStart) {
  auto options = twelve();
  options.rounds = 3;
  auto toy = make_toy(options);
  toy.play(1, 3);
  const auto server = toy.server();
  EXPECT_EQ(server.at("done").item<int64_t>(), 0);
  EXPECT_TRUE(server.at("fit.beta").equal(at::full({5}, 0.2, at::kDouble)));
  EXPECT_TRUE(server.at("temperature").equal(at::ones({5}, at::kDouble)));
  EXPECT_TRUE(server.at("moments.means").eq(0).all().item<bool>());
  const auto report = toy.evaluate(3);
  for (const auto& client : report.clients) EXPECT_TRUE(std::isfinite(client.post_test.loss));
}

TEST(Mosaic, OneClientOfOneClassWillDo) {
  ToyOptions options{.method = "mosaic"};
  options.rounds = 8, options.train.lr = 0.2;
  Federation data;
  data.sample_shape = {1}, data.classes = 2;
  data.clients = {napkin_client({1.0F, 2.0F, -1.0F, 0.5F, 3.0F, 1.5F}, {1, 1, 1, 1, 1, 1})};
  Toy toy(std::move(data), std::make_shared<LineModel>(), options);
  toy.play(1, 8);
  for (const View view : {View::kPre, View::kPost}) {
    EXPECT_TRUE(at::isfinite(predicted(toy, toy.server(), 0, kAsked, view)).all().item<bool>());
    const auto usual = at::tensor({0.5F, 1.0F, 2.0F}).view({3, 1});
    EXPECT_TRUE(predicted(toy, toy.server(), 0, usual, view).argmax(1).eq(1).all().item<bool>());
  }
}

TEST(Mosaic, ADivergedModelOfItsOwnDoesNotSinkAClient) {
  auto toy = make_toy(twelve());
  toy.play(1, 12);
  auto state = toy.state(1);
  state["loc.w"] = at::full_like(state.at("loc.w"), NAN);
  const auto server = only(toy, 3);
  const auto down = toy.download(server, 1, Why::kEvaluate);
  const auto x = toy.local(1).data.range(Part::kTest, 0, 6).x;
  const auto out = toy.personal(state, down, toy.local(1), View::kPost).predict(x);
  expect_shares(out, predicted(toy, only(toy, 1), 1, x, View::kPost), "pri");
}

TEST(Mosaic, ShowsItsWeightsAndWhatEachExpertIsWorth) {
  auto toy = make_toy(twelve());
  toy.play(1, 12);
  const auto report = toy.evaluate(12);
  ASSERT_EQ(report.exhibits.size(), 2U);
  EXPECT_EQ(report.exhibits[0].name, "pool");
  EXPECT_TRUE(report.exhibits[0].value[0].equal(toy.server().at("fit.beta")));
  EXPECT_EQ(report.exhibits[1].name, "experts");
  EXPECT_EQ(report.exhibits[1].columns,
            (std::vector<std::string>{"g", "pri", "ft", "loc", "lda", "pool"}));
  for (size_t id = 0; id < 4; ++id) {
    const auto& val = report.clients[id].post_val;
    EXPECT_NEAR(report.exhibits[1].value[static_cast<int64_t>(id)][5].item<double>(),
                static_cast<double>(val.correct) / static_cast<double>(val.n), 1e-9);
  }
  // A client may tell anything.
  const auto odd = toy.exhibits(toy.server(), {{0}, {{0, {{"accuracy", at::ones({2})}}}}});
  EXPECT_EQ(odd.size(), 1U);
}

// Two classes, below and above 0.5. Client 0 saw class 1 follow 0.6 and 0.7 (bin 4: 0.5 to 0.75)
// once each; client 1 class 0 follow 0.6 twice and class 1 once.
TEST(Mosaic, LastIsWhatFollowedSuchAValue) {
  ToyOptions options{.method = "mosaic", .words = {{"experts", "g,last"}}};
  options.rounds = 8, options.train.lr = 0.2;
  Federation data;
  data.sample_shape = {1}, data.classes = 2;
  data.clients = {napkin_client({0.6F, 0.7F}, {1, 1}),
                  napkin_client({0.6F, 0.6F, 0.6F}, {0, 0, 1})};
  for (auto& client : data.clients)
    client.last_label = std::make_shared<LastLabel>(LastLabel{0, {0.5F}});
  Toy toy(std::move(data), std::make_shared<LineModel>(), options);
  toy.play(1, 8);
  auto server = toy.server();
  server["fit.beta"] = at::tensor({0.0, 1.0}, at::kDouble);
  server["temperature"] = at::ones({2}, at::kDouble);
  // Of all five samples 2 and 3, so shares 3/7 and 4/7; after bin 4 (2 + 3/7) / 6 and (3 + 4/7)
  // / 6.
  const double zero = (2 + 3.0 / 7) / 6, one = (3 + 4.0 / 7) / 6;
  const auto asked = at::tensor({0.74F, -9.0F}).view({2, 1});
  const auto shown = predicted(toy, server, 0, asked).to(at::kDouble).softmax(1);
  EXPECT_NEAR(shown[0][1].item<double>(), (2 + 20 * one) / 22, 2e-6);
  EXPECT_NEAR(shown[1][1].item<double>(), 4.0 / 7, 2e-6) << "nobody saw such a value";
  const auto other = predicted(toy, server, 1, asked).to(at::kDouble).softmax(1);
  EXPECT_NEAR(other[0][0].item<double>(), (2 + 20 * zero) / 23, 2e-6);
}

/// Four clients and a newcomer on LineModel, of two kinds: classes 0 and 1 lie at 0 and 1, or at 10
/// and 11.
Toy kinds_toy(double apart) {
  ToyOptions options{.method = "mosaic-groups", .numbers = {{"apart", apart}, {"least", 2}}};
  options.rounds = 12, options.train.batch = 100, options.train.lr = 0.02;
  Federation data;
  data.sample_shape = {1}, data.classes = 2;
  for (const float from : {0.0F, 10.0F, 0.0F, 10.0F, 10.0F}) {
    std::vector<float> x;
    for (const float wobble : {-0.2F, 0.0F, 0.1F, 0.2F, 0.3F})
      x.insert(x.end(), {from + wobble, from + 1 + wobble});
    auto client = napkin_client(x, {0, 1, 0, 1, 0, 1, 0, 1, 0, 1});
    (std::ssize(data.clients) < 4 ? data.clients : data.newcomers).push_back(std::move(client));
  }
  return Toy(std::move(data), std::make_shared<LineModel>(), options);
}

TEST(MosaicGroups, KindsGoOnByThemselves) {
  auto toy = kinds_toy(0.03);
  toy.play(1, 3);  // a quarter of the rounds: groups are formed
  const auto start = toy.server();
  for (ClientId id = 0; id < 4; ++id)
    EXPECT_EQ(start.at("member@" + std::to_string(id)).item<int64_t>(), id % 2) << id;
  EXPECT_TRUE(start.at("groups@0.pool.g.w").equal(start.at("groups@1.pool.g.w")));
  toy.play(4, 4);
  for (const ClientId first : {0, 1}) {
    std::vector<Weighted> parts;
    for (const ClientId id : {first, first + 2}) {
      const auto key = derive(toy.session->seed(), Purpose::kLocal, 4, id);
      const auto local = toy.local(id, 4, key);
      const auto kept =
          hold_rows(local.data, 0.2, derive(local.setup.key, Purpose::kClient, id, 1)).kept;
      const Weights g{start.at("whole.g.w"), at::empty({0})};
      TrainOptions train;
      train.batch = 100, train.lr = 0.02;
      parts.push_back({local_sgd(g, Site{*toy.model, kept, 4, key}, train).weights, 10});
    }
    const auto now = toy.server().at("groups@" + std::to_string(first) + ".pool.g.w");
    EXPECT_TRUE(at::allclose(now, mean(parts).w, 1e-5, 1e-7)) << first;
  }
}

TEST(MosaicGroups, ANewcomerFindsItsKind) {
  auto toy = kinds_toy(0.03);
  toy.play(1, 12);
  const auto server = toy.server();
  const auto down = toy.download_guest(server, std::nullopt, 4);
  EXPECT_TRUE(down.at("measure").item<bool>());
  const auto local = toy.local(4, 12, 42, Why::kJoin);
  const auto up = toy.method->local_update(toy.fresh(4), down, local).upload;
  const auto guest = toy.learn(server, std::nullopt, up);
  EXPECT_EQ(guest.at("group").item<int64_t>(), 1);
  EXPECT_TRUE(
      toy.download_guest(server, guest, 4).at("body.g.w").equal(server.at("groups@1.pool.g.w")));
}

TEST(MosaicGroups, WithoutKindsItIsMosaic) {
  auto options = twelve();
  options.words = {{"experts", "g,pri,ft,loc,lda,last"}};
  auto plain = make_toy(options);
  options.method = "mosaic-groups";
  options.numbers.emplace_back("apart", 1e9);
  auto grouped = make_toy(options);
  plain.play(1, 12), grouped.play(1, 12);
  EXPECT_FALSE(grouped.server().contains("member@0"));
  for (const char* name : {"g.w", "fit.beta", "temperature", "moments.means"})
    EXPECT_TRUE(at::allclose(plain.server().at(name),
                             grouped.server().at(std::string("whole.") + name), 1e-4, 1e-6))
        << name;
}

TEST(Mosaic, NamesOfExpertsAreChecked) {
  const auto toy = line_toy({.method = "fedavg"});
  for (const char* names : {"g,best", "", "g,g"}) {
    auto draft = find_method("mosaic")->draft();
    for (auto& option : draft->options())
      if (option.spec.key == "experts") *std::get<std::string*>(option.target) = names;
    EXPECT_EQ(error_of(draft->build({})->check(toy.setup())), Error::kInvalid) << names;
  }
}

}  // namespace
}  // namespace tessera::test

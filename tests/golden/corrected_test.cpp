// SCAFFOLD, FedDyn, FedOpt and IFCA: rounds written out on a loss with closed forms, and limits.

#include <gmock/gmock.h>

#include <cmath>

#include "support/engines.hpp"
#include "support/quadratic.hpp"

namespace tessera::test {
namespace {

const std::vector<std::vector<Pair>> kTwo{{kSampleA}, {kSampleB, kSampleB, kSampleB}};
const std::vector<Pair> kSamples{kSampleA, kSampleB};

ToyOptions with(const std::string& method, std::vector<std::pair<std::string, double>> numbers) {
  ToyOptions out{.method = method, .numbers = std::move(numbers)};
  out.train.lr = 0.1, out.train.epochs = 3;
  return out;
}

// Three full-batch steps a round; the second client has three samples and counts no more for it.
TEST(Scaffold, RoundsByHand) {
  auto toy = quadratic_toy(kTwo, with("scaffold", {}));
  Pair g = kFirst, c{};
  std::vector<Pair> own(2, Pair{});
  for (int64_t round = 1; round <= 4; ++round) {
    Pair sum{}, change{};
    for (size_t i = 0; i < 2; ++i) {
      Pair y = g;
      for (int step = 0; step < 3; ++step) {
        const auto s = slope_at(y, kSamples[i]);
        for (size_t j = 0; j < 2; ++j) y[j] -= 0.1 * (s[j] - own[i][j] + c[j]);
      }
      for (size_t j = 0; j < 2; ++j) {
        const double next = own[i][j] - c[j] + (g[j] - y[j]) / (3 * 0.1);
        change[j] += next - own[i][j], own[i][j] = next, sum[j] += y[j];
      }
    }
    for (size_t j = 0; j < 2; ++j) g[j] = sum[j] / 2, c[j] += change[j] / 2;
    toy.play(round, round);
    expect_close(toy.server().at("g.w"), g);
    expect_close(toy.server().at("c"), c);
    for (ClientId i = 0; i < 2; ++i)
      expect_close(toy.state(i).at("c"), own[static_cast<size_t>(i)]);
  }
  // Control variates are the clients' gradients: where g has settled they cancel in the mean.
  toy.play(5, 60);
  for (size_t j = 0; j < 2; ++j)
    EXPECT_NEAR(pair_of(toy.server().at("g.w"))[j], (kSampleA[j] + kSampleB[j]) / 2, 1e-4);
}

TEST(Scaffold, OneFullStepIsFedSgdOfEquals) {
  auto options = with("scaffold", {});
  options.train.epochs = 1;
  auto toy = quadratic_toy({{kSampleA}, {kSampleB}}, options);
  Pair g = kFirst;
  // With one step c − c_i is added to the gradient and taken off the mean again: plain descent,
  // from the second round on as well, because Σ (c − c_i) is 0.
  for (int64_t round = 1; round <= 3; ++round) {
    toy.play(round, round);
    const auto a = slope_at(g, kSampleA), b = slope_at(g, kSampleB);
    for (size_t j = 0; j < 2; ++j) g[j] -= 0.1 * (a[j] + b[j]) / 2;
    expect_close(toy.server().at("g.w"), g);
  }
}

TEST(Scaffold, RefusesWhatChangesItsSteps) {
  for (const std::string what : {"adam", "momentum"}) {
    auto options = with("scaffold", {});
    if (what == "adam")
      options.train.optimizer = "adam";
    else
      options.train.momentum = 0.9;
    auto toy = quadratic_toy(kTwo, options);
    EXPECT_THAT(message(toy.method->check(toy.setup())), ::testing::HasSubstr(what));
  }
}

TEST(FedDyn, RoundsByHand) {
  constexpr double kAlpha = 0.5;
  auto options = with("feddyn", {{"alpha", kAlpha}});
  options.federation.participation = 1;
  auto toy = quadratic_toy(kTwo, options);
  Pair g = kFirst, h{};
  std::vector<Pair> slope(2, Pair{});
  for (int64_t round = 1; round <= 4; ++round) {
    Pair sum{};
    for (size_t i = 0; i < 2; ++i) {
      Pair w = g;
      for (int step = 0; step < 3; ++step) {
        const auto s = slope_at(w, kSamples[i]);
        for (size_t j = 0; j < 2; ++j) w[j] -= 0.1 * (s[j] - slope[i][j] + kAlpha * (w[j] - g[j]));
      }
      for (size_t j = 0; j < 2; ++j) slope[i][j] -= kAlpha * (w[j] - g[j]), sum[j] += w[j];
    }
    for (size_t j = 0; j < 2; ++j) {
      h[j] -= kAlpha * (sum[j] - 2 * g[j]) / 2;
      g[j] = sum[j] / 2 - h[j] / kAlpha;
    }
    toy.play(round, round);
    expect_close(toy.server().at("g.w"), g);
    expect_close(toy.server().at("h"), h);
    for (ClientId i = 0; i < 2; ++i)
      expect_close(toy.state(i).at("slope"), slope[static_cast<size_t>(i)]);
  }
  // Local minima agree in the end: the minimum of the sum of losses, where FedAvg does not arrive.
  toy.play(5, 200);
  for (size_t j = 0; j < 2; ++j)
    EXPECT_NEAR(pair_of(toy.server().at("g.w"))[j], (kSampleA[j] + kSampleB[j]) / 2, 1e-3);
}

// h counts those who took part over all clients, not over the cohort.
TEST(FedDyn, AbsentClientsCountInTheDenominator) {
  auto options = with("feddyn", {{"alpha", 0.5}});
  options.federation.participation = 0.5;
  auto toy = quadratic_toy({{kSampleA}, {kSampleA}}, options);
  toy.play(1, 1);
  Pair w = kFirst;
  for (int step = 0; step < 3; ++step) {
    const auto s = slope_at(w, kSampleA);
    for (size_t j = 0; j < 2; ++j) w[j] -= 0.1 * (s[j] + 0.5 * (w[j] - kFirst[j]));
  }
  Pair h{}, g{};
  for (size_t j = 0; j < 2; ++j) h[j] = -0.5 * (w[j] - kFirst[j]) / 2, g[j] = w[j] - h[j] / 0.5;
  expect_close(toy.server().at("h"), h);
  expect_close(toy.server().at("g.w"), g);
}

// Behind 'dp' the mean is over a fixed number, and so is h: who was there does not show.
TEST(FedDyn, CountsByTheDenominatorOfItsGuard) {
  auto options = with("feddyn", {{"alpha", 0.5}});
  auto toy = quadratic_toy({{kSampleA}, {kSampleA}, {kSampleA}}, options);
  const auto server = toy.typed(toy.server());
  const TensorDict mean{{"value.w", at::tensor({1.0F, 1.0F})},
                        {"value.b", at::empty({0})},
                        {"weight", at::scalar_tensor(2.0, at::kDouble)}};
  const auto plain = toy.method->aggregate(*server, {{0, 1}, {mean}}, toy.setup());
  const auto fixed = toy.method->aggregate(*server, {{0, 1}, {mean}, 1.5}, toy.setup());
  for (const auto& [state, count] : {std::pair{&plain, 2.0}, {&fixed, 1.5}}) {
    const double h = -0.5 * count / 3 * (1 - kFirst[0]);
    EXPECT_NEAR((*state)->tensors().at("h")[0].item<double>(), h, 1e-6);
    EXPECT_NEAR((*state)->tensors().at("g.w")[0].item<double>(), 1 - h / 0.5, 1e-6);
  }
}

TEST(FedOpt, EveryRuleByHand) {
  for (const std::string rule : {"adam", "yogi", "adagrad", "momentum"}) {
    auto options = with("fedopt", {{"eta", 0.2}, {"beta1", 0.8}, {"beta2", 0.9}, {"tau", 0.05}});
    options.words = {{"rule", rule}};
    auto toy = quadratic_toy({{kSampleA}}, options);
    Pair g = kFirst, m{}, v{0.05 * 0.05, 0.05 * 0.05};
    for (int64_t round = 1; round <= 4; ++round) {
      Pair w = g;
      for (int step = 0; step < 3; ++step) {
        const auto s = slope_at(w, kSampleA);
        for (size_t j = 0; j < 2; ++j) w[j] -= 0.1 * s[j];
      }
      for (size_t j = 0; j < 2; ++j) {
        const double d = w[j] - g[j], d2 = d * d;
        if (rule == "momentum") {
          m[j] = 0.8 * m[j] + d;
          g[j] += 0.2 * m[j];
          continue;
        }
        m[j] = 0.8 * m[j] + 0.2 * d;
        if (rule == "adam") v[j] = 0.9 * v[j] + 0.1 * d2;
        if (rule == "adagrad") v[j] += d2;
        if (rule == "yogi") v[j] -= 0.1 * d2 * (v[j] > d2 ? 1 : v[j] < d2 ? -1 : 0);
        g[j] += 0.2 * m[j] / (std::sqrt(v[j]) + 0.05);
      }
      toy.play(round, round);
      expect_close(toy.server().at("g.w"), g);
    }
  }
}

TEST(FedOpt, MomentumWithoutMemoryIsFedAvg) {
  auto options = noisy("fedopt");
  options.words = {{"rule", "momentum"}};
  options.numbers = {{"beta1", 0}, {"eta", 1}};
  auto opt = make_toy(options), avg = make_toy(noisy("fedavg"));
  opt.play(1, 3), avg.play(1, 3);
  EXPECT_TRUE(at::allclose(opt.server().at("g.w"), avg.server().at("g.w"), 1e-5, 1e-6));
}

TEST(Ifca, OneClusterIsFedAvg) {
  auto options = noisy("ifca"), plain = noisy("fedavg");
  options.numbers = {{"clusters", 1}};
  for (auto* one : {&options, &plain}) one->federation.participation = 1;
  auto ifca = make_toy(options, 2, 0), avg = make_toy(plain, 2, 0);
  ifca.play(1, 3), avg.play(1, 3);
  EXPECT_TRUE(ifca.server().at("models.0.w").equal(avg.server().at("g.w")));
}

// Two logits (w0 x, w1 x): the first model answers class 0 to positive x, the second class 1. Two
// clients have class 0 and go together by the weight of their samples; the third is alone.
TEST(Ifca, EverybodyTrainsTheModelThatFits) {
  auto options = with("ifca", {{"clusters", 2}});
  options.train.epochs = 1, options.train.batch = 100;
  Federation data;
  data.sample_shape = {1}, data.classes = 2;
  data.clients = {napkin_client({1}, {0}), napkin_client({1}, {1}), napkin_client({2, 2}, {0, 0})};
  Toy toy(std::move(data), std::make_shared<NapkinModel>(), options);
  auto server = toy.server();
  server["models.0.w"] = at::tensor({2.0F, -2.0F});
  server["models.1.w"] = at::tensor({-2.0F, 2.0F});
  std::vector<Received<TensorDict>> uploads;
  for (ClientId id = 0; id < 3; ++id) {
    const auto down = toy.download(server, id);
    uploads.push_back({id, toy.method->local_update({}, down, toy.local(id)).upload});
    EXPECT_EQ(uploads.back().body.at("cluster").item<int64_t>(), id == 1) << id;
  }
  const auto next = toy.aggregate(server, uploads);
  // dL/dw0 of class 0 is −x / (1 + e^(x (w0 − w1))), and dL/dw1 its opposite.
  const double one = 1 / (1 + std::exp(4.0)), two = 2 / (1 + std::exp(8.0));
  const double moved = 0.1 * (one + 2 * two) / 3;
  expect_close(next.at("models.0.w"), {2 + moved, -2 - moved});
  expect_close(next.at("models.1.w"), {-2 - 0.1 * one, 2 + 0.1 * one});
  // Nobody in the second: it stays.
  const auto alone = toy.aggregate(server, {uploads[0]});
  EXPECT_TRUE(alone.at("models.1.w").equal(server.at("models.1.w")));
}

// The method's own judge: one upload goes, the others count, and the reason is a value.
TEST(Ifca, AClusterThatThereIsNotCostsTheUpload) {
  auto options = noisy("ifca");
  options.federation.participation = 1;
  auto toy = make_toy(options);
  MeddlingEngine engine(toy.simulation->engine());
  engine.on_reply = [&](Reply& reply) {
    if (reply.kind == TaskKind::kTrain && reply.client == 2)
      reply.up["cluster"] = at::scalar_tensor(2, at::kLong);
  };
  Driver driver(*toy.session, options.federation, engine, &toy.federation.commons);
  ASSERT_TRUE(driver.begin().ok());
  const auto report = driver.play(1);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->counted);
  ASSERT_EQ(report->problems.size(), 1U);
  EXPECT_EQ(report->problems[0].client, 2);
  EXPECT_EQ(report->problems[0].why, Reason::kRefused);
  EXPECT_EQ(report->problems[0].reason, "it chose cluster 2, and there are 2");
}

}  // namespace
}  // namespace tessera::test

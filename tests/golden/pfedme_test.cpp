// pFedMe against closed forms: on a quadratic the Moreau envelope is known.

#include <gtest/gtest.h>

#include <cmath>

#include "support/quadratic.hpp"
#include "train/epochs.hpp"

namespace tessera::test {
namespace {

ToyOptions pfedme_options(std::vector<std::pair<std::string, double>> numbers) {
  return {.method = "pfedme", .numbers = std::move(numbers)};
}
Tensor theta(const Toy& toy, ClientId id) { return toy.state(id).at("theta.w"); }

// With many inner steps theta is the proximal point of w, and w follows it.
TEST(PFedMe, FollowsTheMoreauEnvelope) {
  auto toy = quadratic_toy(
      {{kSampleA}, {kSampleB, kSampleB, kSampleB}},
      pfedme_options({{"lambda", 2}, {"K", 200}, {"R", 3}, {"eta", 0.1}, {"eta_p", 0.1}}));
  toy.play(1, 1);
  const auto walked = [](const Pair& x) {
    Pair w = kFirst, near = w;
    for (int r = 0; r < 3; ++r) {
      near = proximal_point(x, w, 2);
      for (size_t j = 0; j < 2; ++j) w[j] -= 0.1 * 2 * (w[j] - near[j]);
    }
    return std::pair(w, near);
  };
  const auto [wa, near_a] = walked(kSampleA);
  const auto [wb, near_b] = walked(kSampleB);
  expect_close(theta(toy, 0), near_a);
  expect_close(theta(toy, 1), near_b);
  expect_close(toy.server().at("g.w"), {(wa[0] + 3 * wb[0]) / 4, (wa[1] + 3 * wb[1]) / 4});
}

// One inner step a batch shows where theta starts: where the last batch left it, and in every round
// at g, whatever the client kept.
TEST(PFedMe, ThetaStartsWhereTheLastBatchLeftIt) {
  auto toy = quadratic_toy(
      {{kSampleA}},
      pfedme_options({{"lambda", 2}, {"K", 1}, {"R", 3}, {"eta", 0.1}, {"eta_p", 0.2}}));
  toy.play(1, 2);
  const auto walked = [](bool warm) {
    Pair g = kFirst, at = g;
    for (int round = 0; round < 2; ++round) {
      Pair w = g;
      at = g;
      for (int r = 0; r < 3; ++r) {
        if (!warm) at = w;
        const auto s = slope_at(at, kSampleA);
        for (size_t j = 0; j < 2; ++j) at[j] -= 0.2 * (s[j] + 2 * (at[j] - w[j]));
        for (size_t j = 0; j < 2; ++j) w[j] -= 0.1 * 2 * (w[j] - at[j]);
      }
      g = w;
    }
    return std::pair(g, at);
  };
  expect_close(toy.server().at("g.w"), walked(true).first);
  expect_close(theta(toy, 0), walked(true).second);
  EXPECT_GT(std::abs(walked(true).second[0] - walked(false).second[0]), 0.01);
}

// docs/methods.md §10.3: theta − w is −∇L(theta)/lambda at the end of the inner problem.
TEST(PFedMe, StrongPullHoldsThetaAtW) {
  double last = INFINITY;
  for (const double lambda : {10.0, 100.0, 1000.0, 10000.0}) {
    auto toy = quadratic_toy({{kSampleA}}, pfedme_options({{"lambda", lambda},
                                                           {"K", 50},
                                                           {"R", 1},
                                                           {"eta", 1e-12},  // w stays
                                                           {"eta_p", 1 / lambda}}));
    toy.play(1, 1);
    const auto at = pair_of(theta(toy, 0));
    const auto s = slope_at(at, kSampleA);
    EXPECT_NEAR(lambda * (at[0] - kFirst[0]), -s[0], 2e-3);
    EXPECT_NEAR(lambda * (at[1] - kFirst[1]), -s[1], 2e-3);
    const double distance = std::hypot(at[0] - kFirst[0], at[1] - kFirst[1]);
    EXPECT_LT(distance, 0.2 * last);
    last = distance;
  }
  EXPECT_LT(last, 1e-3);
}

TEST(PFedMe, ServerGoesAPartOfTheWay) {
  const auto after = [](double beta) {
    auto toy = quadratic_toy({{kSampleA}}, pfedme_options({{"lambda", 5}, {"beta", beta}}));
    toy.play(1, 1);
    return pair_of(toy.server().at("g.w"));
  };
  const auto all = after(1), half = after(0.5), twice = after(2);
  for (size_t j = 0; j < 2; ++j) {
    EXPECT_GT(std::abs(all[j] - kFirst[j]), 0.01);
    EXPECT_NEAR(half[j] - kFirst[j], 0.5 * (all[j] - kFirst[j]), 1e-6);
    EXPECT_NEAR(twice[j] - kFirst[j], 2 * (all[j] - kFirst[j]), 1e-6);
  }
}

TEST(PFedMe, TakesOneBatchAtATimeInTheOrderOfEpochs) {
  auto settings = pfedme_options({{"lambda", 5}, {"K", 4}, {"R", 5}});
  settings.train.batch = 2;
  auto toy = quadratic_toy({{kSampleA, kSampleB, kSampleA, kSampleB, kSampleB}}, settings);
  toy.play(1, 1);
  const auto log = *toy.federation.clients[0].log;
  ASSERT_EQ(log.size(), 5U);
  auto data = toy.federation.clients[0];
  data.log = std::make_shared<BatchLog>();
  const Site site{*toy.model, data, 1, derive(settings.seed, Purpose::kLocal, 1, 0)};
  EpochStream stream(site, Part::kTrain, 2);
  for (int i = 0; i < 5; ++i) stream.next();
  EXPECT_EQ(log, *data.log);
  const auto& quadratic = dynamic_cast<const QuadraticModel&>(*toy.model);
  EXPECT_EQ(quadratic.gradients, 5 * 4);
}

// Five samples in batches of two, twice: six batches.
TEST(PFedMe, WithoutANumberOfBatchesItTakesThoseOfTheEpochs) {
  const auto trained = [](double batches) {
    auto settings = pfedme_options({{"R", batches}});
    settings.train.batch = 2, settings.train.epochs = 2;
    auto toy = quadratic_toy({{kSampleA, kSampleB, kSampleA, kSampleB, kSampleB}}, settings);
    toy.play(1, 1);
    return toy.server().at("g.w");
  };
  EXPECT_TRUE(trained(0).equal(trained(6)));
  EXPECT_FALSE(trained(0).equal(trained(5)));
}

TEST(PFedMe, ViewsAreTheOwnModelBeforeAndAfterTheComingRound) {
  auto settings = pfedme_options({});
  settings.train.batch = 7;
  auto toy = make_toy(settings, 3, 0);
  toy.play(1, 2);
  const auto views = views_of(toy, 2);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(views.pre[i].w.equal(theta(toy, i)));
  toy.play(3, 3);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(views.post[i].w.equal(theta(toy, i)));
  EXPECT_TRUE(toy.global(toy.server())->w.equal(toy.server().at("g.w")));
}

// R · K steps of the inner problem at g, which does not move.
TEST(PFedMe, NewcomersSolveTheInnerProblemFromTheGlobalModel) {
  auto toy = quadratic_toy(
      {{kSampleA}},
      pfedme_options({{"lambda", 2}, {"K", 2}, {"R", 3}, {"eta", 0.2}, {"eta_p", 0.1}}),
      {{kSampleB}});
  toy.play(1, 2);
  const auto g = pair_of(toy.server().at("g.w"));
  const auto views = views_of(toy, 2);
  expect_close(views.pre[1].w, g);
  const auto end = proximal_point(kSampleB, g, 2);
  Pair expected{};
  for (size_t j = 0; j < 2; ++j)
    expected[j] = end[j] + std::pow(1 - 0.1 * (kCurvature[j] + 2), 6) * (g[j] - end[j]);
  expect_close(views.post[1].w, expected);
}

TEST(PFedMe, RefusesUnstableRates) {
  const auto sentence = [](double lambda, double eta, double eta_p) {
    const auto toy = quadratic_toy(
        {{kSampleA}}, pfedme_options({{"lambda", lambda}, {"eta", eta}, {"eta_p", eta_p}}));
    return message(toy.method->check(toy.setup()));
  };
  EXPECT_EQ(sentence(15, 0.005, 0.09), "");
  EXPECT_EQ(sentence(15, 0.005, 0.2),
            "pfedme: method.eta_p times method.lambda is 3, but training only settles below 2; "
            "lower one of them");
  EXPECT_NE(sentence(10, 0.005, 0.2), "");  // 2 itself
  EXPECT_EQ(sentence(10, 0.1, 0.1),
            "pfedme: method.eta times method.lambda is 1, but training only settles below 1; lower "
            "one of them");
}

// eta_p (h + lambda) = 9.5: the pull alone would be stable.
TEST(PFedMe, DivergenceNamesTheKeyToLower) {
  auto toy =
      quadratic_toy({{kSampleA}}, pfedme_options({{"lambda", 0.1}, {"eta_p", 9}, {"R", 200}}));
  EXPECT_TRUE(toy.method->check(toy.setup()).ok());
  const auto report = toy.driver->play(1);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(message(report.status()).find("lower method.eta_p"), std::string::npos)
      << message(report.status());
}

}  // namespace
}  // namespace tessera::test

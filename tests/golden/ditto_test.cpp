// Ditto against closed forms, its limits (docs/methods.md §10.3) and what public code gets wrong.

#include <gtest/gtest.h>

#include <cmath>

#include "support/quadratic.hpp"

namespace tessera::test {
namespace {

ToyOptions ditto_options(double lambda, int64_t epochs, int64_t personal_epochs) {
  ToyOptions out{
      .method = "ditto",
      .numbers = {{"lambda", lambda}, {"personal_epochs", static_cast<double>(personal_epochs)}}};
  out.train.lr = 0.1;
  out.train.epochs = epochs;
  return out;
}

Tensor own(const Toy& toy, ClientId id) { return toy.state(id).at("v.w"); }

// A pull to the client's trained copy of g would end elsewhere: that copy has left g by then.
TEST(Ditto, OwnModelSettlesBetweenDataAndTheReceivedModel) {
  auto toy =
      quadratic_toy({{kSampleA}, {kSampleB, kSampleB, kSampleB}}, ditto_options(0.5, 3, 400));
  auto g = kFirst;
  for (int64_t round = 1; round <= 3; ++round) {
    toy.play(round, round);
    expect_close(own(toy, 0), proximal_point(kSampleA, g, 0.5));
    expect_close(own(toy, 1), proximal_point(kSampleB, g, 0.5));
    g = pair_of(toy.server().at("g.w"));
  }
  EXPECT_GT(std::abs(g[0] - kFirst[0]), 0.1);
}

TEST(Ditto, OneStepByHand) {
  auto settings = ditto_options(2, 1, 1);
  settings.numbers.emplace_back("personal_lr", 0.25);
  auto toy = quadratic_toy({{kSampleA}}, settings);
  toy.play(1, 2);
  const auto s = slope_at(kFirst, kSampleA);
  const Pair g{kFirst[0] - 0.1 * s[0], kFirst[1] - 0.1 * s[1]};
  const Pair v{kFirst[0] - 0.25 * s[0], kFirst[1] - 0.25 * s[1]};  // v = g at first: no pull yet
  const auto t = slope_at(v, kSampleA);
  expect_close(own(toy, 0), {v[0] - 0.25 * (t[0] + 2 * (v[0] - g[0])),
                             v[1] - 0.25 * (t[1] + 2 * (v[1] - g[1]))});
}

TEST(Ditto, SharedModelIsFedAvg) {
  auto ditto = make_toy(noisy("ditto")), avg = make_toy(noisy("fedavg"));
  ditto.play(1, 3), avg.play(1, 3);
  EXPECT_TRUE(ditto.server().at("g.w").equal(avg.server().at("g.w")));
  const auto report = ditto.evaluate(3), reference = avg.evaluate(3);
  for (size_t i = 0; i < report.clients.size(); ++i) {
    ASSERT_TRUE(report.clients[i].global_test.has_value());
    EXPECT_EQ(report.clients[i].global_test->loss, reference.clients[i].pre_test.loss);
  }
}

// And not by default: a well-known public default is lambda = 0.
TEST(Ditto, WithoutPullOwnModelsAreLocalTraining) {
  auto alone_options = noisy("local");
  alone_options.numbers = {{"patience", 0}};
  auto free_options = noisy("ditto");
  free_options.numbers = {{"lambda", 0}};
  auto alone = make_toy(alone_options), free = make_toy(free_options);
  auto pulled = make_toy(noisy("ditto"));
  alone.play(1, 4), free.play(1, 4), pulled.play(1, 4);
  for (ClientId i = 0; i < 4; ++i) {
    const auto w = alone.state(i).at("w.w");
    EXPECT_TRUE(own(free, i).equal(w));
    EXPECT_GT((own(pulled, i) - w).norm().item<double>(), 1e-2);
  }
}

TEST(Ditto, ViewsAreTheModelBeforeAndAfterTheComingRound) {
  auto toy = make_toy(noisy("ditto"), 3, 0);
  toy.play(1, 2);
  const auto views = views_of(toy, 2);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(views.pre[i].w.equal(own(toy, i)));
  toy.play(3, 3);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(views.post[i].w.equal(own(toy, i)));
}

// From g, 5 · E_p steps: what is left of the way shrinks by 1 − lr (h + lambda) each.
TEST(Ditto, NewcomersTrainFiveRoundsFromTheSharedModel) {
  auto toy = quadratic_toy({{kSampleA}}, ditto_options(0.5, 1, 2), {{kSampleB}});
  toy.play(1, 4);
  const auto g = pair_of(toy.server().at("g.w"));
  const auto views = views_of(toy, 4);
  expect_close(views.pre[1].w, g);
  const auto end = proximal_point(kSampleB, g, 0.5);
  Pair expected{};
  for (size_t j = 0; j < 2; ++j)
    expected[j] = end[j] + std::pow(1 - 0.1 * (kCurvature[j] + 0.5), 10) * (g[j] - end[j]);
  expect_close(views.post[1].w, expected);
}

// The order that others rely on (parity test): all of the shared model's batches, then the own.
TEST(Ditto, TakesTheBatchesOfTheSharedModelFirst) {
  auto settings = ditto_options(0.5, 2, 3);
  settings.train.batch = 2;
  auto toy = quadratic_toy({{kSampleA, kSampleB, kSampleA}}, settings);
  toy.play(1, 1);
  const auto& log = *toy.federation.clients[0].log;
  ASSERT_EQ(log.size(), 2U * (2 + 3));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(log[i], log[4 + i]);
}

TEST(Ditto, RefusesAPullThatSwings) {
  const auto sentence = [](double lambda, double personal_lr, const std::string& optimizer) {
    ToyOptions settings{.method = "ditto",
                        .numbers = {{"lambda", lambda}, {"personal_lr", personal_lr}}};
    settings.train.lr = 0.1;
    settings.train.optimizer = optimizer;
    const auto toy = quadratic_toy({{kSampleA}}, settings);
    return message(toy.method->check(toy.setup()));
  };
  EXPECT_EQ(sentence(19.9, 0, "sgd"), "");
  EXPECT_EQ(sentence(40, 0, "sgd"),
            "ditto: train.lr times method.lambda is 4, but training only settles below 2; lower "
            "one of them");
  EXPECT_NE(sentence(19.9, 0.2, "sgd").find("method.personal_lr"), std::string::npos);
  EXPECT_EQ(sentence(40, 0, "adam"), "");
}

}  // namespace
}  // namespace tessera::test

// LG-FedAvg: private representation, shared top, a warm-up of FedAvg, ensembles for newcomers.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/napkin.hpp"

namespace tessera::test {
namespace {

TEST(LgFedAvg, OneRoundByHandIsTheMirrorImageOfFedPer) {
  auto toy = napkin_toy({.method = "lgfedavg", .numbers = {{"warmup", 0}}});
  const auto report = toy.play(1, 1).at(0);
  const auto a = napkin_slope(kNapkinStart, kNapkinA), b = napkin_slope(kNapkinStart, kNapkinB);
  EXPECT_NEAR(toy.server().at("top").item<float>(),
              kNapkinStart.head - kNapkinLr * (a.head + 3 * b.head) / 4, 1e-6);
  EXPECT_NEAR(toy.state(0).at("base.w").item<float>(), kNapkinStart.body - kNapkinLr * a.body,
              1e-6);
  EXPECT_NEAR(toy.state(1).at("base.w").item<float>(), kNapkinStart.body - kNapkinLr * b.body,
              1e-6);
  EXPECT_EQ(report.bytes_down, 2 * 4);  // d_P each
  EXPECT_EQ(report.bytes_up, 2 * 4);
}

TEST(LgFedAvg, AllWarmUpIsFedAvg) {
  ToyOptions options{.method = "lgfedavg", .numbers = {{"warmup", 1}}};
  options.train.batch = 7, options.train.lr = 0.05, options.train.momentum = 0.9;
  auto lg = make_toy(options, 4, 0);
  options.method = "fedavg";
  auto avg = make_toy(options, 4, 0);
  lg.play(1, 3), avg.play(1, 3);
  const auto server = lg.server();
  EXPECT_TRUE(at::cat({server.at("base.w"), server.at("top")}).equal(avg.server().at("g.w")));
  const auto a = lg.evaluate(3), b = avg.evaluate(3);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(a.clients[i].pre_test.loss, b.clients[i].pre_test.loss);
    EXPECT_EQ(a.clients[i].post_test.loss, b.clients[i].post_test.loss);
  }
}

// Everybody leaves the warm-up from FedAvg's model, whenever it takes part again.
TEST(LgFedAvg, TheWarmUpEndsInOneMoreWholeDownload) {
  ToyOptions options{.method = "lgfedavg", .numbers = {{"warmup", 0.4}}};  // of 5 rounds
  auto toy = napkin_toy(options);
  constexpr int64_t kWhole = 2 * 4 * 2, kTop = 2 * 4;  // two clients, d = 2, d_P = 1
  for (int64_t round = 1; round <= 5; ++round) {
    const auto report = toy.play(round, round).at(0);
    EXPECT_EQ(report.bytes_down, round <= 3 ? kWhole : kTop) << round;
    EXPECT_EQ(report.bytes_up, round <= 2 ? kWhole : kTop) << round;
    if (round != 2) continue;
    const auto down = toy.download(toy.server(), 0, Why::kTrain, {}, 3);
    EXPECT_TRUE(down.at("base.w").equal(toy.server().at("base.w")));
    EXPECT_EQ(down.at("warm").item<int64_t>(), 0);
  }
}

TEST(LgFedAvg, AClientThatWasAwayStartsFromTheWarmUpsEnd) {
  ToyOptions options{.method = "lgfedavg", .numbers = {{"warmup", 0.4}}};
  options.federation.participation = 0.5;  // one of two clients
  auto toy = napkin_toy(options);
  toy.play(1, 2);
  const auto base = toy.server().at("base.w").clone();
  toy.play(3, 3);
  const auto here = cohort_of(options.seed, 3, 2, 0.5).at(0);
  const auto away = 1 - here;
  EXPECT_TRUE(toy.server().at("base.w").equal(base));
  EXPECT_TRUE(toy.download(toy.server(), away, Why::kTrain, {}, 4).at("base.w").equal(base));
  EXPECT_FALSE(toy.download(toy.server(), here, Why::kTrain, {}, 4).contains("base.w"));
}

// The warm-up is over when its rounds are, whether they counted or not.
TEST(LgFedAvg, TheWarmUpFollowsTheRound) {
  auto toy = napkin_toy({.method = "lgfedavg", .numbers = {{"warmup", 0.4}}});
  for (int64_t round = 1; round <= 5; ++round) {
    const auto down = toy.download(toy.server(), 0, Why::kTrain, {}, round);
    EXPECT_EQ(down.at("warm").item<int64_t>(), round <= 2) << round;
    EXPECT_TRUE(down.contains("base.w")) << "nobody has one of its own yet";
    const auto expected =
        toy.method->expected(*toy.typed(toy.server()), Why::kTrain, toy.setup(round));
    EXPECT_EQ(expected.contains("value.base.w"), round <= 2) << round;
    const auto up = toy.method->local_update(toy.fresh(0), down, toy.local(0, round)).upload;
    EXPECT_NO_THROW(toy.method->require_upload(expected, up)) << round;
  }
}

TEST(LgFedAvg, NewcomersNeedTheBank) {
  auto toy = napkin_toy({.method = "lgfedavg"}, 1);
  EXPECT_NE(message(toy.method->check(toy.setup())).find("method.base_bank = true"),
            std::string::npos);
  auto banked = napkin_toy({.method = "lgfedavg", .numbers = {{"base_bank", 1}}}, 1);
  EXPECT_TRUE(banked.method->check(banked.setup()).ok());
}

TEST(LgFedAvg, ANewcomerAveragesSoftmaxOutputs) {
  ToyOptions options{.method = "lgfedavg", .numbers = {{"base_bank", 1}, {"warmup", 0}}};
  auto toy = napkin_toy(options, 1);
  const auto report = toy.play(1, 1).at(0);
  EXPECT_EQ(report.bytes_up, 2 * 4 * 2);  // d each: the representation goes to the bank
  const auto evaluation = toy.evaluate(1);
  EXPECT_EQ(evaluation.onboard_down, 4 * (1 + 2));  // d_P, and K d_B of both clients
  EXPECT_EQ(evaluation.eval_down, 2 * 4);           // clients: d_P

  const auto down = toy.download_guest(toy.server(), std::nullopt, 2);
  const auto state = toy.fresh(2);
  const double x = 3, top = toy.server().at("top").item<float>();
  double p0 = 0;
  for (const auto& data : {kNapkinA, kNapkinB}) {
    const double body = kNapkinStart.body - kNapkinLr * napkin_slope(kNapkinStart, data).body;
    p0 += 0.5 / (1 + std::exp(-(body - top) * x));
  }
  for (const View view : {View::kPre, View::kPost}) {
    const auto logits =
        toy.personal(state, down, toy.local(2, 2), view).predict(at::full({1, 1}, x));
    EXPECT_NEAR(logits[0][0].item<double>(), std::log(p0), 1e-5);
    EXPECT_NEAR(logits[0][1].item<double>(), std::log(1 - p0), 1e-5);
  }
}

TEST(LgFedAvg, RunningStatisticsStayWithTheRepresentation) {
  ToyOptions options{.method = "lgfedavg", .numbers = {{"warmup", 0}, {"base_bank", 1}}};
  options.train.batch = 8;
  Toy toy(toy_federation(2, 1, 60, true), *make_model("lenet16-bn", {{1, 28, 28}, 3}), options);
  toy.play(1, 1);
  const std::vector<TensorDict> states{toy.state(0), toy.state(1)};
  EXPECT_FALSE(states[0].at("base.b").equal(states[1].at("base.b")));
  // In the bank they come with their representation: each member predicts as its owner does.
  const auto down = toy.download_guest(toy.server(), std::nullopt, 2);
  EXPECT_EQ(down.at("bank").size(1),
            states[0].at("base.w").numel() + states[0].at("base.b").numel());
  const auto x = toy.federation.newcomers[0].range(Part::kTest, 0, 12).x;
  auto mean = at::zeros({12, 3});
  for (ClientId i = 0; i < 2; ++i) {
    const auto own =
        toy.personal(toy.state(i), toy.download(toy.server(), i), toy.local(i, 2), View::kPre);
    mean += at::softmax(own.predict(x), 1) / 2;
  }
  const auto asked = toy.personal(states[0], down, toy.local(2, 2), View::kPre);
  EXPECT_TRUE(at::allclose(asked.predict(x).exp(), mean, 1e-4, 1e-6));
}

}  // namespace
}  // namespace tessera::test

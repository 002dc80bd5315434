// Answers worked out on paper, and limits in which one method is another (docs/methods.md §10).

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "base/clock.hpp"
#include "method/fedavg.hpp"
#include "support/napkin.hpp"
#include "support/quadratic.hpp"

namespace tessera::test {
namespace {

Napkin at_server(const Toy& toy, const std::string& name) {
  const auto w = toy.server().at(name);
  return {w[0].item<float>(), w.numel() > 1 ? w[1].item<float>() : NAN};
}

TEST(Napkin, OneFedAvgRound) {
  auto toy = napkin_toy({.method = "fedavg"});
  toy.play(1, 1);
  const auto a = napkin_slope(kNapkinStart, kNapkinA), b = napkin_slope(kNapkinStart, kNapkinB);
  const auto g = at_server(toy, "g.w");
  // Weights 1 and 3: the clients' numbers of samples.
  EXPECT_NEAR(g.body, kNapkinStart.body - kNapkinLr * (a.body + 3 * b.body) / 4, 1e-6);
  EXPECT_NEAR(g.head, kNapkinStart.head - kNapkinLr * (a.head + 3 * b.head) / 4, 1e-6);
}

TEST(Napkin, TwoLocalEpochsAreTwoSteps) {
  ToyOptions options{.method = "fedavg"};
  options.train.epochs = 2;
  auto toy = napkin_toy(options);
  toy.play(1, 1);
  const auto walk = [](const NapkinData& data) {
    Napkin w = kNapkinStart;
    for (int i = 0; i < 2; ++i) {
      const auto g = napkin_slope(w, data);
      w = {w.body - kNapkinLr * g.body, w.head - kNapkinLr * g.head};
    }
    return w;
  };
  const auto a = walk(kNapkinA), b = walk(kNapkinB);
  EXPECT_NEAR(at_server(toy, "g.w").body, (a.body + 3 * b.body) / 4, 1e-6);
}

TEST(Napkin, FedProxPullsTheSecondStepBack) {
  ToyOptions options{.method = "fedprox", .numbers = {{"mu", 0.7}}};
  options.train.epochs = 2;
  auto toy = napkin_toy(options);
  toy.play(1, 1);
  const auto walk = [](const NapkinData& data) {
    Napkin w = kNapkinStart;
    for (int i = 0; i < 2; ++i) {
      const auto g = napkin_slope(w, data);
      w = {w.body - kNapkinLr * (g.body + 0.7 * (w.body - kNapkinStart.body)),
           w.head - kNapkinLr * (g.head + 0.7 * (w.head - kNapkinStart.head))};
    }
    return w;
  };
  const auto a = walk(kNapkinA), b = walk(kNapkinB);
  EXPECT_NEAR(at_server(toy, "g.w").body, (a.body + 3 * b.body) / 4, 1e-6);
  EXPECT_NEAR(at_server(toy, "g.w").head, (a.head + 3 * b.head) / 4, 1e-6);
}

TEST(Napkin, ReptileStepsAPartOfTheWay) {
  auto toy = napkin_toy(
      {.method = "reptile", .numbers = {{"eps_first", 0.5}, {"eps_last", 0.1}}, .rounds = 3});
  const auto target = [](Napkin w) {
    const auto a = napkin_slope(w, kNapkinA), b = napkin_slope(w, kNapkinB);
    return Napkin{w.body - kNapkinLr * (a.body + 3 * b.body) / 4,
                  w.head - kNapkinLr * (a.head + 3 * b.head) / 4};
  };
  toy.play(1, 3);
  Napkin w = kNapkinStart;
  for (const double eps : {0.5, 0.3, 0.1}) {
    const auto t = target(w);
    w = {w.body + eps * (t.body - w.body), w.head + eps * (t.head - w.head)};
  }
  EXPECT_NEAR(at_server(toy, "g.w").body, w.body, 1e-6);
}

// Schedules follow the round, whether those before it counted or not.
TEST(Napkin, TheStepOfTheServerIsThatOfTheRound) {
  const Weights up{at::tensor({1.5F, 0.75F}), at::empty({0})};  // 1 further than the start
  const auto moved = [&](const Toy& toy, int64_t round) {
    const auto g = toy.aggregate(toy.server(), {{0, pack(Weighted{up, 1})}}, round).at("g.w");
    return g[0].item<double>() - kNapkinStart.body;
  };
  const auto reptile = napkin_toy(
      {.method = "reptile", .numbers = {{"eps_first", 0.5}, {"eps_last", 0.1}}, .rounds = 3});
  EXPECT_NEAR(moved(reptile, 1), 0.5, 1e-6);
  EXPECT_NEAR(moved(reptile, 2), 0.3, 1e-6);
  EXPECT_NEAR(moved(reptile, 3), 0.1, 1e-6);
  ToyOptions options{.method = "fedsgd"};
  options.train.lr_decay = 0.5;
  const auto sgd = napkin_toy(options);
  EXPECT_NEAR(moved(sgd, 1), -kNapkinLr * 1.5, 1e-6);  // along the upload, which is a gradient
  EXPECT_NEAR(moved(sgd, 3), -kNapkinLr / 4 * 1.5, 1e-6);
}

TEST(Napkin, FedPerAveragesBodiesAndKeepsHeads) {
  auto toy = napkin_toy({.method = "fedper"});
  toy.play(1, 1);
  const auto a = napkin_slope(kNapkinStart, kNapkinA), b = napkin_slope(kNapkinStart, kNapkinB);
  EXPECT_NEAR(at_server(toy, "base.w").body,
              kNapkinStart.body - kNapkinLr * (a.body + 3 * b.body) / 4, 1e-6);
  EXPECT_NEAR(toy.state(0).at("head").item<float>(), kNapkinStart.head - kNapkinLr * a.head, 1e-6);
  EXPECT_NEAR(toy.state(1).at("head").item<float>(), kNapkinStart.head - kNapkinLr * b.head, 1e-6);
}

TEST(Napkin, FedPerMeanHeadIsTheWeightedMeanAndIsUploaded) {
  auto toy = napkin_toy({.method = "fedper", .words = {{"head", "mean"}}});
  const auto report = toy.play(1, 1).at(0);
  const auto a = napkin_slope(kNapkinStart, kNapkinA), b = napkin_slope(kNapkinStart, kNapkinB);
  EXPECT_NEAR(at_server(toy, "mean_head").body,
              kNapkinStart.head - kNapkinLr * (a.head + 3 * b.head) / 4, 1e-6);
  EXPECT_EQ(report.bytes_down, 2 * 4);    // d_B each
  EXPECT_EQ(report.bytes_up, 2 * 4 * 2);  // d each: heads travel (docs/methods.md §2.1)
}

TEST(Napkin, FedPerMeanOverLastRoundForgetsTheAbsent) {
  ToyOptions options{.method = "fedper", .words = {{"head", "mean"}, {"mean_over", "last_round"}}};
  options.federation.participation = 0.5;  // one of two clients
  auto toy = napkin_toy(options);
  toy.play(1, 4);
  const auto last = cohort_of(options.seed, 4, 2, 0.5).at(0);
  EXPECT_EQ(toy.state(last).at("head").item<float>(), toy.server().at("mean_head").item<float>());
}

Tensor server(const Toy& toy) { return toy.server().at("g.w"); }

TEST(Limits, OneClientFedAvgIsLocalTraining) {
  auto fed = make_toy(noisy("fedavg"), 1, 0);
  auto options = noisy("local");
  options.numbers = {{"patience", 0}};
  auto alone = make_toy(options, 1, 0);
  fed.play(1, 4), alone.play(1, 4);
  EXPECT_TRUE(at::equal(server(fed), alone.state(0).at("w.w")));
}

TEST(Limits, FedProxWithoutPullIsFedAvg) {
  auto avg = make_toy(noisy("fedavg"));
  auto options = noisy("fedprox");
  options.numbers = {{"mu", 0}};
  auto prox = make_toy(options);
  avg.play(1, 3), prox.play(1, 3);
  EXPECT_TRUE(at::equal(server(avg), server(prox)));
}

TEST(Limits, ReptileWithFullStepsIsFedAvg) {
  auto avg = make_toy(noisy("fedavg"));
  auto options = noisy("reptile");
  options.numbers = {{"eps_first", 1}, {"eps_last", 1}};
  auto reptile = make_toy(options);
  avg.play(1, 3), reptile.play(1, 3);
  EXPECT_TRUE(at::equal(server(avg), server(reptile)));
}

TEST(Limits, OneFullBatchStepFedAvgIsFedSgdIsCentralized) {
  const auto run = [](const std::string& method) {
    ToyOptions options{.method = method};
    options.train.lr = 0.1;
    options.train.batch = 100000;
    auto federation = toy_federation(3, 0, 60);
    federation.clients = {federation.clients[0], federation.clients[0], federation.clients[0]};
    Toy toy(std::move(federation), *make_model("mlp100", {{6}, 3}), options);
    toy.play(1, 4);
    return server(toy);
  };
  const auto avg = run("fedavg");
  EXPECT_TRUE(at::allclose(avg, run("fedsgd"), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(avg, run("centralized"), 1e-5, 1e-6));
  EXPECT_FALSE(at::allclose(
      avg, make_model("mlp100", {{6}, 3}).value()->init(derive(7, Purpose::kInit)).w, 1e-3, 1e-4));
}

// The post view is what the client would upload next, not merely something similar.
TEST(Limits, PostViewIsTheNextUpload) {
  auto toy = make_toy(noisy("fedavg"), 3, 0);
  toy.play(1, 2);
  const auto views = views_of(toy, 2);
  std::vector<Received<TensorDict>> uploads;
  for (size_t i = 0; i < 3; ++i) {
    const auto samples = static_cast<double>(toy.federation.clients[i].train_size());
    uploads.push_back({static_cast<ClientId>(i), pack(Weighted{views.post[i], samples})});
  }
  const auto next = toy.aggregate(toy.server(), uploads, 3).at("g.w");
  toy.play(3, 3);
  EXPECT_TRUE(at::equal(next, server(toy)));
}

TEST(Limits, PooledReferenceTrainsOnEverybody) {
  auto toy = make_toy(noisy("centralized"), 3, 0);
  auto alone = toy_federation(3, 0, 60);
  ClientData everybody = alone.clients[0];
  for (size_t i = 1; i < 3; ++i)
    everybody.train.insert(everybody.train.end(), alone.clients[i].train.begin(),
                           alone.clients[i].train.end());
  Federation one = alone;
  one.clients = {everybody};
  Toy local(std::move(one), toy.model, noisy("fedavg"));
  toy.play(1, 2), local.play(1, 2);
  EXPECT_TRUE(at::equal(server(toy), server(local)));
}

TEST(Local, EarlyStoppingKeepsTheBestWeights) {
  auto options = noisy("local");
  options.train.lr = 1.5;  // too large on purpose: the validation loss jumps about
  options.numbers = {{"patience", 2}};
  auto toy = make_toy(options, 1, 0);
  double best = INFINITY;
  int64_t stale = 0;
  for (int64_t round = 1; round <= 30 && stale < 2; ++round) {
    toy.play(round, round);
    const auto state = toy.state(0);
    const double loss = part_loss(*toy.model, {state.at("w.w"), state.at("w.b")},
                                  toy.federation.clients[0], Part::kVal, Loss::kCrossEntropy);
    stale = loss < best ? 0 : stale + 1;
    best = std::min(best, loss);
    EXPECT_EQ(state.at("stale").item<int64_t>(), stale);
  }
  ASSERT_EQ(stale, 2) << "the task never stopped early; the test is void";
  const auto stopped = fingerprint(toy);
  toy.play(31, 32);
  EXPECT_EQ(stopped, fingerprint(toy));
  EXPECT_NEAR(toy.evaluate(32).clients[0].post_val.loss, best, 1e-6);
}

TEST(Local, FullBudgetIsIndependentOfParticipation) {
  for (const std::string budget : {"participation", "full"}) {
    auto options = noisy("local");
    options.federation.participation = 0.5;
    options.words = {{"budget", budget}};
    auto toy = make_toy(options, 2, 0);
    auto data = toy.federation.clients[0];
    data.log = std::make_shared<BatchLog>();
    toy.method->local_update(toy.fresh(0), {}, toy.local(0, data));
    std::erase_if(*data.log, [](const auto& batch) { return batch.first != Part::kTrain; });
    const size_t epochs = budget == "full" ? 4 : 2;     // 2 epochs / 0.5
    EXPECT_EQ(data.log->size(), epochs * 6) << budget;  // 36 samples in batches of 7
  }
}

TEST(Driver, CohortIsSortedDistinctAndOfTheRightSize) {
  const auto a = cohort_of(1, 1, 30, 0.1), b = cohort_of(1, 2, 30, 0.1);
  EXPECT_EQ(a.size(), 3U);
  EXPECT_TRUE(std::is_sorted(a.begin(), a.end()));
  EXPECT_EQ(std::set(a.begin(), a.end()).size(), 3U);
  EXPECT_NE(a, b);
  EXPECT_EQ(cohort_of(1, 1, 5, 0.01).size(), 1U);
  EXPECT_EQ(cohort_of(1, 1, 5, 1.0).size(), 5U);
  EXPECT_EQ(cohort_of(1, 1, 7, 0.5).size(), 4U);  // rounded up
}

TEST(Driver, DropRateIsAFrequency) {
  int dropped = 0;
  for (int64_t round = 0; round < 2000; ++round) dropped += is_dropped(3, round, 5, 0.3);
  EXPECT_NEAR(dropped, 600, 4 * std::sqrt(2000 * 0.3 * 0.7));  // four standard deviations
}

TEST(Driver, TooFewRepliesLeaveTheOldState) {
  auto options = noisy("fedavg");
  options.federation.min_replies = 4;
  options.federation.drop_rate = 0.5;
  auto toy = make_toy(options);
  const auto before = fingerprint(toy.server());
  const auto report = toy.play(1, 1).at(0);
  ASSERT_GT(report.dropped, 0);
  EXPECT_EQ(before, fingerprint(toy.server()));
}

TEST(Driver, DivergedUploadsAreRejectedAndNamed) {
  auto options = noisy("fedavg");
  options.train.lr = 1e30;
  auto toy = make_toy(options);
  const auto report = toy.driver->play(1);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(message(report.status()).find("not finite"), std::string::npos)
      << message(report.status());
  EXPECT_NE(message(report.status()).find("train.lr"), std::string::npos);
}

// 20 Mbit/s, 50 ms: 4012 bytes each way cost 3.2 ms, and two latencies on top.
TEST(Driver, SimulatedClockAddsTransferAndLatency) {
  auto toy = make_toy(noisy("fedavg"));
  const auto report = toy.play(1, 1).at(0);
  const double transfer = 2 * 4.0 * 1003 * 8 / 20e6;
  EXPECT_GT(report.sim_seconds, transfer + 0.1);
  EXPECT_LT(report.sim_seconds, transfer + 0.1 + report.wall_seconds + 0.01);
}

// A server that is kept waiting (another program has the processor, say) or has work to do.
struct SlowServer : FedAvg {
  bool works = false;
  Server aggregate(Server server, const Sum<Up>& sum, const Setup& setup) const {
    if (works) {
      const double start = thread_cpu_seconds();
      while (thread_cpu_seconds() < start + 0.3) {
      }
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    return FedAvg::aggregate(std::move(server), sum, setup);
  }
};

TEST(Driver, SimulatedClockCountsTheServersWorkAndNotItsWaiting) {
  const auto options = noisy("fedavg");
  const auto played = [&](bool works) {
    SlowServer method;
    method.train = options.train, method.works = works;
    auto data = toy_federation(4, 0, 60);
    auto net = *make_model("mlp100", {data.sample_shape, data.classes});
    Toy toy(std::move(data), std::move(net), options, *find_method("fedavg"), erase(method));
    const auto report = toy.play(1, 1).at(0);
    EXPECT_GT(report.wall_seconds, 0.3);
    return report.sim_seconds;
  };
  // Transfer, latency and four small clients take 0.1 s and a little.
  EXPECT_LT(played(false), 0.3);
  EXPECT_GT(played(true), 0.4);
}

}  // namespace
}  // namespace tessera::test

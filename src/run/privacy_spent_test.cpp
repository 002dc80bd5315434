#include "run/privacy_spent.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/driver.hpp"
#include "run/guard_sections.hpp"

namespace tessera {
namespace {

std::optional<PrivacySpent> spent(const std::string& text, int64_t clients, int64_t rounds) {
  const auto experiment = parse_experiment(text, "e.toml", {});
  EXPECT_TRUE(experiment.ok()) << experiment.status();
  return privacy_spent(*experiment, clients, rounds);
}

const std::string kDp = "[[guard]]\nname = \"dp\"\nsigma = 1.0\ndelta = 1e-5\n";

// privacy.md §3.5: q = 0.1, sigma = 1, T = 100, delta = 1e-5: 7.973; q = 1, sigma = 10, T = 50,
// delta = 1e-3: 2.341.
TEST(PrivacySpent, IsTheTables) {
  const auto sum =
      spent(kDp + "[federation]\nparticipation = 0.1\n[method]\nname = \"fedavg\"\n", 1000, 100);
  ASSERT_TRUE(sum);
  EXPECT_NEAR(sum->epsilon, 7.973, 0.01);
  EXPECT_FALSE(sum->of_uploads);
  EXPECT_EQ(sum->warning(1000), "");
  // FedACS needs every upload by itself: being drawn hides nobody.
  const auto single = spent(
      "[[guard]]\nname = \"dp\"\nsigma = 10.0\ndelta = 1e-3\n[federation]\nparticipation = "
      "0.1\n[method]\nname = \"fedacs\"\n",
      1000, 50);
  EXPECT_NEAR(single->epsilon, 2.341, 0.01);
  EXPECT_TRUE(single->of_uploads);
}

// Against the server the draw is no secret, and noise that it adds itself is none.
TEST(PrivacySpent, SaysAgainstWhomItHolds) {
  const std::string drawn = "[federation]\nparticipation = 0.1\n[method]\nname = \"fedavg\"\n";
  const auto plain = spent(kDp + drawn, 1000, 100);
  EXPECT_FALSE(plain->server_epsilon);
  EXPECT_THAT(plain->text(100), ::testing::AllOf(::testing::HasSubstr("none against the server"),
                                                 ::testing::HasSubstr("of a simulation")));
  const auto hidden = spent(kDp + "[[guard]]\nname = \"secure-aggregation\"\n" + drawn, 1000, 100);
  EXPECT_EQ(hidden->epsilon, plain->epsilon);
  Accountant everybody;
  ASSERT_TRUE(everybody.add({.q = 1, .sigma = 1, .steps = 100}).ok());
  EXPECT_EQ(*hidden->server_epsilon, *everybody.epsilon(1e-5));
  EXPECT_GT(*hidden->server_epsilon, 80);
  EXPECT_THAT(hidden->text(100), ::testing::HasSubstr("against the server, which knows who"));
  const auto each = spent(kDp + "entropy = \"system\"\n[method]\nname = \"fedacs\"\n", 1000, 100);
  EXPECT_EQ(each->server_epsilon, each->epsilon);
  EXPECT_THAT(each->text(100),
              ::testing::AllOf(::testing::HasSubstr("and against the server"),
                               ::testing::Not(::testing::HasSubstr("simulation"))));
}

TEST(PrivacySpent, DeltaFollowsFromTheClientsAndAWeakOneIsSaid) {
  const auto few = spent("[[guard]]\nname = \"dp\"\n[method]\nname = \"fedper\"\n", 20, 40);
  EXPECT_NEAR(few->delta, 1 / std::pow(20, 1.1), 1e-12);
  EXPECT_FALSE(few->of_uploads) << "FedPer needs the sum alone";
  const auto heads = spent(
      "[[guard]]\nname = \"dp\"\n[method]\nname = \"fedper\"\nhead = \"mean\"\nmean_over = "
      "\"all\"\n",
      20, 40);
  EXPECT_TRUE(heads->of_uploads) << "then its server keeps every head";
  EXPECT_THAT(few->warning(20), ::testing::HasSubstr("with 20 clients"));
  EXPECT_FALSE(spent("[method]\nname = \"fedavg\"\n", 20, 40));
  EXPECT_FALSE(spent("[[guard]]\nname = \"dp\"\nsigma = 0\n[method]\nname = \"fedavg\"\n", 20, 40));
}

TEST(SamplesSpent, NetworksThatMixSamplesAreRefusedByName) {
  GuardOptions guards;
  guards.dp_sgd.emplace();
  const Shape shape{{1, 28, 28}, 10};
  EXPECT_TRUE(check_guards(guards, **make_model("lenet", shape), "lenet").ok());
  const auto mixed = check_guards(guards, **make_model("lenet16-bn", shape), "lenet16-bn");
  EXPECT_THAT(message(mixed),
              ::testing::AllOf(::testing::HasSubstr("does not go with model 'lenet16-bn'"),
                               ::testing::HasSubstr("use a network without batch norm")));
  EXPECT_TRUE(check_guards({}, **make_model("lenet16-bn", shape), "lenet16-bn").ok());
}

TEST(VirtualSamples, NeedPicturesWithKnownPixels) {
  GuardOptions guards;
  guards.transform.emplace();
  auto pool = std::make_shared<Pool>();
  ClientData data;
  EXPECT_TRUE(check_guards(guards, data).ok()) << "held elsewhere";
  data.pool = pool;
  EXPECT_THAT(message(check_guards(guards, data)),
              ::testing::HasSubstr("guard 'transform' does not go with these data"));
  EXPECT_TRUE(check_guards({}, data).ok());
  pool->pixel_mean = {0.5}, pool->pixel_std = {0.5};
  EXPECT_TRUE(check_guards(guards, data).ok());
}

const std::string kDpSgd =
    "[[guard]]\nname = \"dp-sgd\"\nsigma = 1.0\n[train]\nbatch = 10\nepochs = 2\n";

std::optional<SamplesSpent> of_samples(const std::string& text, const std::vector<int64_t>& samples,
                                       int64_t rounds) {
  const auto experiment = parse_experiment(text, "e.toml", {});
  EXPECT_TRUE(experiment.ok()) << experiment.status();
  return samples_spent(*experiment, samples, rounds);
}

// 1000 samples in batches of 10: q = 0.01, 100 steps an epoch; 5 rounds of 2 epochs are the table's
// 1000 steps: 2.108. 100 samples: q = 0.1 and 100 steps: 7.973, the weaker promise.
TEST(SamplesSpent, IsTheTables) {
  const std::string fedavg = kDpSgd + "[method]\nname = \"fedavg\"\n";
  const auto large = of_samples(fedavg, {1000, 0}, 5);
  ASSERT_TRUE(large);
  EXPECT_NEAR(large->epsilon, 2.108, 0.01);
  EXPECT_EQ(large->steps, 1000);
  EXPECT_EQ(large->delta, 1e-5);
  EXPECT_EQ(large->rate, 0.01);
  const auto worst = of_samples(fedavg, {1000, 100, 0, 100}, 5);
  EXPECT_NEAR(worst->epsilon, 7.973, 0.01);
  EXPECT_EQ(worst->client, 1);
  EXPECT_THAT(worst->text(), ::testing::HasSubstr("(100 samples, 100 steps)"));
  EXPECT_EQ(worst->warning(), "");
  EXPECT_THAT(of_samples(fedavg, {100}, 50)->warning(), ::testing::HasSubstr("more noise"));
  EXPECT_FALSE(of_samples(fedavg, {0, 0}, 5)) << "nobody has told how many there are";
  EXPECT_FALSE(of_samples("[method]\nname = \"fedavg\"\n", {100}, 5));
}

TEST(SamplesSpent, DeltaIsBelowOneInTenTimesTheSamples) {
  const auto many = of_samples(kDpSgd + "[method]\nname = \"fedavg\"\n", {100000}, 1);
  EXPECT_DOUBLE_EQ(many->delta, 1e-6);
}

// Steps as the method takes them; rounds are those that ask the client.
TEST(SamplesSpent, CountsWhatWasUploaded) {
  const auto hyper = of_samples(kDpSgd + "[method]\nname = \"pfedhn\"\n", {100}, 3);
  EXPECT_EQ(hyper->steps, 3 * 50);
  const auto some =
      of_samples(kDpSgd + "[federation]\nparticipation = 0.5\n[method]\nname = \"fedavg\"\n",
                 std::vector<int64_t>(10, 100), 40);
  EXPECT_GE(some->steps, 20 * 20) << "somebody is asked as often as the mean";
  EXPECT_LT(some->steps, 40 * 20) << "nobody in all rounds";
}

// Round by round it is what all rounds at once are, and no client's single account is worse.
TEST(PrivacyMeter, AddsUpRoundByRound) {
  const auto experiment = *parse_experiment(
      kDpSgd + "[federation]\nparticipation = 0.3\n[method]\nname = \"fedavg\"\n", "e.toml", {});
  const std::vector<int64_t> samples{100, 0, 40, 100, 40, 70, 100, 40};
  PrivacyMeter meter(experiment, samples);
  std::vector<int64_t> asked(samples.size(), 0);
  for (int64_t round = 1; round <= 12; ++round) {
    meter.advance(round);
    for (const auto id : cohort_of(static_cast<uint64_t>(experiment.run.seed), round, 8, 0.3))
      ++asked[static_cast<size_t>(id)];
    double worst = -1;
    for (size_t i = 0; i < samples.size(); ++i) {
      if (samples[i] == 0) continue;
      const int64_t steps = asked[i] * 2 * ((samples[i] + 9) / 10);
      const double rate = 10 / static_cast<double>(samples[i]);
      worst = std::max(worst, *epsilon_of({rate, 1, steps}, 1e-5));
    }
    EXPECT_EQ(meter.samples()->epsilon, worst) << round;
  }
  EXPECT_FALSE(meter.clients());
  EXPECT_EQ(meter.text().size(), 1U);
}

}  // namespace
}  // namespace tessera

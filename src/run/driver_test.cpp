#include "run/driver.hpp"

#include <cmath>
#include <set>

#include "engine/testing.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;
using testing::Trio;
using testing::updates;

struct Server : Trio {
  explicit Server(FederationOptions options = {}, testing::Counting counting = {})
      : Trio(counting),
        host(*session, store, hosted()),
        engine(host, {}),
        driver(*session, options, engine) {
    EXPECT_THAT(driver.begin(), Succeeds());
  }
  ClientStore store;
  ClientHost host;
  LocalEngine engine;
  Driver driver;
};

// Client 1 of the trio breaks in round 2.
TEST(Driver, ABrokenClientCostsItsUploadAndGoesBack) {
  Server s;
  ASSERT_THAT(s.driver.play(1), Succeeds());
  EXPECT_EQ(updates(s.store, 1), 101);
  const auto report = s.driver.play(2);
  ASSERT_THAT(report, Succeeds());
  EXPECT_TRUE(report->counted);
  EXPECT_EQ(report->rejected, 1);
  ASSERT_EQ(report->problems.size(), 1U);
  EXPECT_EQ(report->problems[0].client, 1);
  EXPECT_THAT(report->problems[0].reason, ::testing::HasSubstr("it broke"));
  EXPECT_EQ(updates(s.store, 0), 2);
  EXPECT_EQ(updates(s.store, 1), 101);
  EXPECT_EQ(updates(s.store, 2), 202);
}

TEST(Driver, TooFewRepliesLeaveEverybodyAsTheyWere) {
  Server s({.min_replies = 3});
  ASSERT_THAT(s.driver.play(1), Succeeds());
  const auto report = s.driver.play(2);
  ASSERT_THAT(report, Succeeds());
  EXPECT_FALSE(report->counted);
  EXPECT_EQ(updates(s.store, 0), 1);
  EXPECT_EQ(updates(s.store, 2), 201);
}

TEST(Driver, AnEvaluationThatFailsOnOneClientIsThatClientsProblem) {
  Server s;
  ASSERT_THAT(s.driver.play(1), Succeeds());
  const auto report = s.driver.evaluate(1);  // asked as round 2
  ASSERT_THAT(report, Succeeds());
  ASSERT_EQ(report->clients.size(), 2U);
  EXPECT_EQ(report->clients[0].client, 0);
  EXPECT_EQ(report->clients[1].client, 2);
  ASSERT_EQ(report->problems.size(), 1U);
  EXPECT_EQ(report->problems[0].kind, Problem::Kind::kEvaluation);
  EXPECT_EQ(report->problems[0].client, 1);
  EXPECT_THAT(report->problems[0].reason, ::testing::HasSubstr("it broke"));
}

TEST(Driver, ModelsThatDivergedAreNotScored) {
  Server s;
  auto server = s.driver.server();
  server["g.w"] = at::full({1}, NAN);
  ASSERT_THAT(s.driver.restore(server), Succeeds());
  const auto report = s.driver.evaluate(2);
  ASSERT_THAT(report, Succeeds());
  EXPECT_TRUE(report->clients.empty());
  ASSERT_EQ(report->problems.size(), 3U);
  EXPECT_THAT(report->problems[2].reason, ::testing::HasSubstr("not finite"));
}

TEST(Driver, UploadsOfHugeNumbersAreRefused) {
  Server s;
  auto server = s.driver.server();
  server["g.w"] = at::full({1}, 9.9e14F);
  ASSERT_THAT(s.driver.restore(server), Succeeds());
  const auto report = s.driver.play(3);
  ASSERT_THAT(report, Succeeds());
  EXPECT_EQ(report->rejected, 0);
  for (const float value : {1.1e15F, -1.1e15F}) {
    server["g.w"] = at::full({1}, value);
    ASSERT_THAT(s.driver.restore(server), Succeeds());
    EXPECT_THAT(
        s.driver.play(4),
        FailsWith(Error::kInternal, "'seen' holds 1.1e+15; numbers beyond 1e+15 are refused"));
  }
}

TEST(Driver, EvaluationsMayAskASampleThatStaysTheSame) {
  Server s({.eval_clients = 2});
  const auto first = s.driver.evaluate(2), second = s.driver.evaluate(3);
  ASSERT_EQ(first->clients.size(), 2U);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(first->clients[i].client, second->clients[i].client);
  std::set<std::vector<ClientId>> samples;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto ids = evaluated_clients(seed, 10, 3);
    EXPECT_EQ(ids.size(), 3U);
    EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
    samples.insert(ids);
  }
  EXPECT_GT(samples.size(), 10U) << "the seed chooses";
  EXPECT_EQ(evaluated_clients(1, 4, 0), (std::vector<ClientId>{0, 1, 2, 3}));
  EXPECT_EQ(evaluated_clients(1, 3, 7), (std::vector<ClientId>{0, 1, 2}));
}

// Evaluation and training of one round are one computation; evaluating costs no step of its own.
TEST(Driver, StepsOfAnEvaluationServeTheNextRound) {
  std::atomic<int> steps = 0;
  Server s({}, {&steps});
  ASSERT_THAT(s.driver.play(3), Succeeds());
  ASSERT_THAT(s.driver.evaluate(3), Succeeds());
  EXPECT_EQ(steps, 6);
  ASSERT_THAT(s.driver.play(4), Succeeds());
  EXPECT_EQ(steps, 6);
  ASSERT_THAT(s.driver.evaluate(4), Succeeds());
  ASSERT_THAT(s.driver.evaluate(5), Succeeds());  // the last: nobody trains any more
  EXPECT_EQ(steps, 12);
}

TEST(Driver, AStateOfAnotherMethodIsRefused) {
  Server s;
  EXPECT_THAT(s.driver.restore({{"x", at::zeros({1})}}),
              FailsWith(Error::kInvalid, "none of method counting"));
  EXPECT_THAT(s.driver.restore({{"g.w", at::zeros({2})}, {"g.b", at::empty({0})}}),
              FailsWith(Error::kInvalid, "'g.w' is Float [2], expected Float [1]"));
}

}  // namespace
}  // namespace tessera

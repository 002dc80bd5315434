#include "guard/secure_aggregation/sum/sum_plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "privacy/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

SumPlan plan_of(size_t count, uint64_t seed = 1) {
  std::vector<int64_t> ids(count);
  std::iota(ids.begin(), ids.end(), 10);
  SeededEntropy entropy(seed);
  return *make_sum_plan(1, 2, ids, entropy);
}

TEST(SumPlan, TwoThirdsAreNeeded) {
  const size_t expected[] = {2, 3, 4, 4, 5, 6, 6, 7};
  for (size_t n = 3; n <= 10; ++n) EXPECT_EQ(sum_threshold(n), expected[n - 3]) << n;
  EXPECT_EQ(sum_threshold(100), 67u);
}

TEST(SumPlan, BeyondAHundredClientsNeighboursAreFew) {
  EXPECT_EQ(sum_degree(100), 99u);
  EXPECT_EQ(sum_degree(101), 42u);
  EXPECT_EQ(sum_degree(128), 42u);
  EXPECT_EQ(sum_degree(129), 48u);
  EXPECT_EQ(sum_degree(1000), 60u);
  EXPECT_EQ(sum_degree(65535), 96u);
  EXPECT_EQ(SumGraph(plan_of(100)).scheme(), (ShareScheme{67, 100}));
  EXPECT_EQ(SumGraph(plan_of(101)).scheme(), (ShareScheme{22, 43}));
}

TEST(SumPlan, AllHoldEachOthersSharesWhenFew) {
  const auto plan = plan_of(5);
  const SumGraph graph(plan);
  for (const auto id : plan.clients) EXPECT_EQ(graph.holders(id), plan.clients);
  EXPECT_TRUE(graph.has(10));
  EXPECT_FALSE(graph.has(15));
}

TEST(SumPlan, HoldingIsMutual) {
  const auto plan = plan_of(150);
  const SumGraph graph(plan), again(plan), other(plan_of(150, 2));
  size_t moved = 0;
  for (const auto id : plan.clients) {
    const auto holders = graph.holders(id);
    ASSERT_EQ(holders.size(), 49u);
    EXPECT_TRUE(std::is_sorted(holders.begin(), holders.end()));
    EXPECT_EQ(std::adjacent_find(holders.begin(), holders.end()), holders.end());
    EXPECT_TRUE(std::binary_search(holders.begin(), holders.end(), id));
    for (const auto holder : holders) {
      const auto back = graph.holders(holder);
      EXPECT_TRUE(std::binary_search(back.begin(), back.end(), id));
    }
    EXPECT_EQ(again.holders(id), holders);  // both sides see the same
    moved += other.holders(id) != holders;
  }
  EXPECT_GT(moved, 140u);  // another session, another ring
}

double log_choose(double n, double k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

// The chance that at least `bad` of `drawn` holders are among the `marked` of n clients.
double chance_of(size_t n, size_t marked, size_t drawn, size_t bad) {
  double sum = 0;
  for (size_t k = bad; k <= std::min(drawn, marked); ++k)
    sum +=
        std::exp(log_choose(marked, k) + log_choose(n - marked, drawn - k) - log_choose(n, drawn));
  return sum;
}

TEST(SumPlan, NeighboursAreEnoughForAFifth) {
  // If a fifth of all clients is lost, some neighbourhood is left with less than a majority; if a
  // fifth works for the server, some neighbourhood gives a secret away. docs/decisions/020 states
  // these bounds (sums over all clients).
  for (const size_t n : {101, 200, 1000, 10000, 65535}) {
    const auto scheme = SumGraph(plan_of(n)).scheme();
    const auto dn = static_cast<double>(n);
    EXPECT_LT(dn * chance_of(n, n / 5, scheme.count, scheme.count - scheme.threshold + 1), 1e-4);
    EXPECT_LT(dn * chance_of(n, n / 5, scheme.count, scheme.threshold), 1e-4);
  }
}

TEST(SumPlan, RefusesWhatCannotBe) {
  SeededEntropy entropy(1);
  EXPECT_THAT(make_sum_plan(1, 2, {1, 2}, entropy), FailsWith(Error::kInvalid, "not 2"));
  EXPECT_THAT(make_sum_plan(1, 2, {3, 2, 1}, entropy), Succeeds());
  EXPECT_THAT(make_sum_plan(1, 2, {1, 2, 1}, entropy), FailsWith(Error::kInvalid, "ascend at 1"));
  EXPECT_THAT(make_sum_plan(1, 2, {1, 2, -1}, entropy), FailsWith(Error::kInvalid, "client -1"));
  EXPECT_THAT(make_sum_plan(1, 0, {1, 2, 3}, entropy), FailsWith(Error::kInvalid, "not 0"));
  EXPECT_THAT(make_sum_plan(1, uint64_t{1} << 32, {1, 2, 3}, entropy),
              FailsWith(Error::kInvalid, "4294967296 words"));
  EXPECT_THAT(make_sum_plan(1, 2, std::vector<int64_t>(65536), entropy),
              FailsWith(Error::kInvalid, "not 65536"));
  auto few = plan_of(9);
  for (const uint32_t degree : {0u, 2u, 6u, 7u, 9u, 10u}) {
    few.degree = degree;
    EXPECT_THAT(check_sum_plan(few), FailsWith(Error::kInvalid, "neighbours")) << degree;
  }
  auto many = plan_of(150);
  for (const uint32_t degree : {2u, 46u, 49u, 147u, 150u}) {
    many.degree = degree;
    EXPECT_THAT(check_sum_plan(many), FailsWith(Error::kInvalid, "neighbours")) << degree;
  }
  for (const uint32_t degree : {48u, 50u, 148u, 149u}) {
    many.degree = degree;
    EXPECT_THAT(check_sum_plan(many), Succeeds()) << degree;
    EXPECT_EQ(SumGraph(many).holders(10).size(), degree + 1);
  }
}

TEST(SumPlan, SessionsDiffer) { EXPECT_NE(plan_of(3, 1).session, plan_of(3, 2).session); }

}  // namespace
}  // namespace tessera

// The time and memory of a report once grew with the product of two tables' sizes, so that a
// history of a few megabytes could take hours.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>

#include "report/compare_report.hpp"
#include "report/run_report.hpp"

namespace tessera {
namespace {

// Not a matcher: it would print megabytes.
bool holds(const Result<std::string>& page, const std::string& text) {
  return page.ok() && page->find(text) != std::string::npos;
}

RunHistory long_run(int64_t rounds) {
  RunHistory run;
  run.meta.method = "FedAvg", run.meta.headline = "post", run.meta.rounds = rounds;
  run.clients = {{0, "a", false, 1, 0, 1, {}}};
  for (int64_t round = 1; round <= rounds; ++round) {
    run.rounds.push_back({round, 1, 0, 0, 0.5, 3, 1, 3, 1, 2, 1, 1});
    for (const char* view : {"pre", "post"})
      run.evals.push_back({round, "clients", view, "test", round == 1 ? 0.5 : 0.75, 0.25});
  }
  return run;
}

// Processor time, which does not depend on what else the machine does.
double seconds_for(int64_t rounds) {
  const auto run = long_run(rounds);
  const auto start = std::clock();
  const auto page = run_report(run);
  const auto comparison =
      compare_report("t", {run}, nlohmann::json::array({{{"method", "FedAvg"}}}));
  const auto taken = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_TRUE(holds(page, fmt::format("{} of {} rounds", rounds, rounds)));
  EXPECT_TRUE(holds(page, "after: 50.0\u00a0% at Traffic 4 B")) << "3 bytes down and 1 up";
  EXPECT_TRUE(holds(comparison, "at Traffic 4 B"));
  return taken;
}

// Every point of the cost curves added up all rounds before it, and every point of a band moved all
// points before it.
TEST(LargeHistory, TimeGrowsInProportionToTheRounds) {
  const double few = seconds_for(5'000), many = seconds_for(40'000);
  EXPECT_LT(many, 24 * few) << "8 times the rounds took " << many << " s after " << few << " s";
}

TEST(LargeHistory, ClassesOfManyClientsAreNotDrawnCellByCell) {
  RunHistory run;
  run.meta.method = "FedAvg";
  for (int64_t i = 0; i < 200; ++i) {  // 200 × 1,200 is over 200,000
    run.clients.push_back({i, "", false, 6, 0, 0, {}});
    for (int64_t k = 0; k < 6; ++k) run.clients.back().labels["train"][6 * i + k] = 1;
  }
  const auto page = run_report(run);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_TRUE(holds(page, "there are too many classes and clients to draw who holds which"));
  EXPECT_TRUE(holds(page, "<title>client 199, training: 6</title>")) << "bars are there";
  run.clients.clear();
  for (int64_t i = 0; i < 4473; ++i)
    run.clients.push_back({i, "", false, 1, 0, 0, {{"train", {{i, 1}}}}});
  const auto many = run_report(run);
  EXPECT_TRUE(holds(many, "Every client trains on 1 samples."));
  EXPECT_LT(many->size(), 100'000U);
  run.clients.resize(100);
  const auto small = run_report(run);
  EXPECT_FALSE(holds(small, "there are too many classes"));
  EXPECT_TRUE(holds(small, "<title>client 99, 99: 1</title>"));
}

}  // namespace
}  // namespace tessera

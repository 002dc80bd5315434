#include "cli/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cli/significance.hpp"
#include "report/compare_report.hpp"

namespace tessera {
namespace {

using ::testing::HasSubstr;

RunFigures cell(const std::string& label, int64_t seed, double accuracy,
                std::vector<double> clients = {}) {
  RunFigures out;
  out.label = label, out.run = label + "-s" + std::to_string(seed), out.seed = seed;
  out.accuracy = accuracy, out.over_clients = 0.05, out.pre = accuracy, out.post = accuracy + 0.01;
  out.worst10 = accuracy - 0.2, out.bytes_down = 1e6, out.bytes_up = 2e6;
  out.sim_seconds = 30, out.wall_seconds = 4, out.partition = "p", out.clients = std::move(clients);
  return out;
}

TEST(Comparison, PairsBySeed) {
  // Listed in another order: pairs are found by seed.
  const auto c = compare_cells({cell("a", 1, 0.80), cell("a", 2, 0.84), cell("a", 3, 0.82),
                                cell("b", 3, 0.79), cell("b", 1, 0.79), cell("b", 2, 0.82)});
  ASSERT_EQ(c.rows.size(), 2u);
  EXPECT_TRUE(c.by_seed());
  EXPECT_NEAR(c.rows[0].accuracy, 0.82, 1e-12);
  EXPECT_NEAR(*c.rows[0].over_seeds, 0.02, 1e-12);
  EXPECT_EQ(c.rows[0].best_other, "b");
  EXPECT_EQ(c.rows[1].best_other, "a");
  EXPECT_NEAR(c.rows[0].difference, 0.02, 1e-12);  // of 0.01, 0.02, 0.03
  EXPECT_NEAR(c.rows[0].p, 1 - std::sqrt(12.0 / 14.0), 1e-9);
  EXPECT_NEAR(c.rows[1].difference, -0.02, 1e-12);
  const double half = 0.01 * 4.30265 / std::sqrt(3.0);
  EXPECT_NEAR(c.rows[0].low, 0.02 - half, 1e-7);
  EXPECT_NEAR(c.rows[0].high, 0.02 + half, 1e-7);
  EXPECT_EQ(c.rows[0].needed, 4);
  EXPECT_NEAR(c.json()[1]["difference_low"], -0.02 - half, 1e-7);
  EXPECT_EQ(c.json()[0]["seeds_to_decide"], 4);
  EXPECT_THAT(c.table().csv(), HasSubstr(",+2.0,-0.5 … +4.5,b,0.074,4 seeds\n"));
  EXPECT_THAT(c.caption(), HasSubstr("95 % interval of Student's t"));
}

TEST(Comparison, SaysFirstThatModelsStayBelowPersistence) {
  const auto rule = cell("persistence", 1, 0.85);
  EXPECT_THAT(compare_cells({cell("a", 1, 0.8), cell("b", 1, 0.7), rule}).caption(),
              ::testing::StartsWith("Every model stays below persistence, the last known class "
                                    "again: 85.0, best of the models a with 80.0.\n"));
  EXPECT_THAT(compare_cells({cell("a", 1, 0.86), rule}).caption(),
              ::testing::Not(HasSubstr("stays below")));
}

TEST(Comparison, SaysWhatWasChosen) {
  auto chosen = cell("a lr=0.2", 1, 0.8);
  chosen.note = "chosen on validation data: lr = 0.2 of 0.1, 0.2, the edge of the grid";
  const auto c = compare_cells({chosen, cell("b", 1, 0.7)});
  EXPECT_THAT(c.caption(), HasSubstr("a lr=0.2: chosen on validation data: lr = 0.2 of"));
  EXPECT_EQ(c.json()[0]["note"], chosen.note);
  EXPECT_TRUE(c.json()[1]["note"].is_null());
  EXPECT_THAT(*compare_report("t", {}, c.json()), HasSubstr("the edge of the grid"));
}

TEST(Comparison, OneSeedPairsClients) {
  const auto c =
      compare_cells({cell("a", 1, 0.7, {0.5, 0.7, 0.9}), cell("b", 1, 0.6, {0.5, 0.6, 0.7})});
  EXPECT_FALSE(c.by_seed());
  EXPECT_NEAR(c.rows[0].difference, 0.1, 1e-12);
  EXPECT_NEAR(c.rows[0].p, paired_test({0.0, 0.1, 0.2}).p, 1e-9);
  EXPECT_THAT(c.caption(), HasSubstr("over clients (one seed)"));
  EXPECT_THAT(c.table().text(), HasSubstr("70.0 ± 5.0"));
  EXPECT_TRUE(c.json()[0]["accuracy_std"].is_null());
  EXPECT_DOUBLE_EQ(c.json()[0]["accuracy_std_clients"], 0.05);
}

TEST(Comparison, ClientsOfAnotherPartitionAreNotPaired) {
  auto other = cell("b", 1, 0.6, {0.5, 0.6});
  other.partition = "q";
  const auto c = compare_cells({cell("a", 1, 0.7, {0.5, 0.7}), other});
  EXPECT_TRUE(std::isnan(c.rows[0].p));
  EXPECT_TRUE(c.json()[0]["p_value"].is_null());
}

TEST(Comparison, PooledReferencesAreNobodysBaseline) {
  auto pooled = cell("centralized", 1, 0.95);
  pooled.reference = true;
  const auto c = compare_cells({pooled, cell("a", 1, 0.7), cell("b", 1, 0.8)});
  EXPECT_EQ(c.rows[0].best_other, "b");
  EXPECT_EQ(c.rows[1].best_other, "b");
  EXPECT_EQ(c.rows[2].best_other, "a");
}

TEST(Comparison, OneRowHasNothingToCompareWith) {
  const auto c = compare_cells({cell("a", 1, 0.7)});
  EXPECT_TRUE(c.json()[0]["best_baseline"].is_null());
  EXPECT_THAT(c.table().csv(),
              HasSubstr("a,70.0 ± 5.0,70.0,71.0,50.0,3.00 MB,30 s,4.0 s,–,–,–,–,–"));
}

TEST(Comparison, TheReportTakesItsJson) {
  auto failed = cell("c", 2, 0.99);
  failed.failed = "no round counted";
  const auto c = compare_cells({cell("a", 1, 0.8), cell("a", 2, 0.9), cell("b", 1, 0.5),
                                cell("b", 2, 0.6), cell("c", 1, 0.9), failed});
  EXPECT_TRUE(compare_report("t", {}, c.json()).ok());
}

TEST(Comparison, AFailedRunHasNoNumbersAndIsNobodysBaseline) {
  auto failed = cell("b", 2, 0.99);
  failed.failed = "the evaluation of 3 clients failed,\nfirst client 4 after round 10: not finite";
  const auto c = compare_cells({cell("a", 1, 0.7), cell("a", 2, 0.7), cell("b", 1, 0.9), failed,
                                cell("c", 1, 0.6), cell("c", 2, 0.6)});
  EXPECT_EQ(c.failures(), 1u);
  EXPECT_EQ(c.rows[0].best_other, "c") << "not b, which has the highest accuracy";
  EXPECT_EQ(c.rows[2].best_other, "a");
  EXPECT_EQ(c.rows[1].best_other, "");
  EXPECT_EQ(c.rows[1].runs, (std::vector<std::string>{"b-s1"}));
  const auto row = c.json()[1];
  EXPECT_EQ(row["failed"],
            "b-s2: the evaluation of 3 clients failed, first client 4 after round 10: not finite");
  EXPECT_FALSE(row.contains("accuracy_mean"));
  EXPECT_FALSE(c.json()[0].contains("failed"));
  const auto text = c.table().text();
  EXPECT_THAT(c.caption(),
              HasSubstr("b: b-s2: the evaluation of 3 clients failed, first client 4"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("90.0")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("99.0")));
  EXPECT_THAT(c.table().csv(), HasSubstr("a,70.0 ± 0.0,70.0,71.0,50.0,3.00 MB,30 s,4.0 s,"));
  EXPECT_THAT(message(c.verdict()), HasSubstr("1 of 3 rows failed, first 'b': b-s2: the eval"));
  EXPECT_EQ(error_of(c.verdict()), Error::kInternal);
  EXPECT_TRUE(compare_cells({cell("a", 1, 0.7)}).verdict().ok());
}

nlohmann::json summary() {
  const nlohmann::json block{{"mean", 0.7}, {"std", 0.1}, {"worst10", 0.4}};
  return {{"accuracy", block},
          {"accuracy_pre", block},
          {"accuracy_post", {{"mean", 0.9}, {"std", 0.2}, {"worst10", 0.5}}},
          {"bytes_down", 10},
          {"bytes_up", 20},
          {"sim_seconds", 3.5},
          {"wall_seconds", 2.5},
          {"seed", 4}};
}

TEST(MakeCell, ReadsSummaryAndHistory) {
  RunHistory history;
  history.meta.method = "fedavg";
  history.meta.partition_digest = "d";
  history.clients = {{.id = 0}, {.id = 1}, {.id = 2, .newcomer = true}};
  history.evals = {{.round = 5}, {.round = 9}};
  for (const int64_t id : {0, 1, 2}) {
    history.client_evals.push_back(
        {.round = 9, .client = id, .view = "pre", .part = "test", .n = 10, .correct = 5 + id});
    history.client_evals.push_back(
        {.round = 9, .client = id, .view = "post", .part = "test", .n = 10, .correct = 8});
  }
  const auto pre = make_cell(summary(), history, "");
  ASSERT_TRUE(pre.ok()) << pre.status();
  EXPECT_EQ(pre->label, "fedavg");
  EXPECT_EQ(pre->seed, 4);
  EXPECT_EQ(pre->clients, (std::vector<double>{0.5, 0.6}));
  EXPECT_EQ(pre->sim_seconds, 3.5);
  EXPECT_TRUE(std::isnan(pre->validation));  // there is no validation split
  const auto post = make_cell(summary(), history, "post");
  ASSERT_TRUE(post.ok());
  EXPECT_EQ(post->label, "fedavg (post)");
  EXPECT_EQ(post->accuracy, 0.9);
  EXPECT_EQ(post->worst10, 0.5);
  EXPECT_EQ(post->clients, (std::vector<double>{0.8, 0.8}));
  history.evals.push_back(
      {.round = 5, .who = "clients", .view = "pre", .part = "val", .mean = 0.2});
  history.evals.push_back(
      {.round = 9, .who = "clients", .view = "pre", .part = "val", .mean = 0.3});
  history.evals.push_back(
      {.round = 9, .who = "clients", .view = "post", .part = "val", .mean = 0.4});
  EXPECT_EQ(make_cell(summary(), history, "")->validation, 0.3);
  EXPECT_EQ(make_cell(summary(), history, "post")->validation, 0.4);
  auto broken = summary();
  broken["accuracy"]["mean"] = nullptr;
  EXPECT_THAT(message(make_cell(broken, history, "").status()), HasSubstr("'accuracy/mean'"));
  broken["failed"] = "no round counted";
  const auto failed = make_cell(broken, history, "");
  ASSERT_TRUE(failed.ok()) << failed.status();
  EXPECT_EQ(failed->failed, "no round counted");
  EXPECT_TRUE(std::isnan(failed->accuracy));
  EXPECT_EQ(pre->failed, "");
}

}  // namespace
}  // namespace tessera

#include "report/run_tables.hpp"

#include <gmock/gmock.h>

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunHistory measured() {
  RunHistory run;
  run.meta.headline = "post";
  run.meta.class_names = {"well", "<ill>"};
  run.clients = {{.id = 0, .name = "a"}, {.id = 1, .name = "b"}};
  EvalRow all{.round = 3, .who = "clients", .view = "post", .part = "test"};
  all.mean = 0.5, all.std = 0.125, all.micro = 0.625, all.auroc = 0.8125, all.ece = 0.0625;
  all.loss = 1.75;
  run.evals = {all};
  for (const int64_t id : {0, 1}) {
    ClientEvalRow one{.round = 3, .client = id, .view = "post", .part = "test", .n = 8};
    one.correct = 4, one.auroc = id == 0 ? 0.75 : 0.875;
    run.client_evals.push_back(one);
  }
  run.confusions = {{3, 0, "post", 0, 0, 5}, {3, 0, "post", 0, 1, 3}, {3, 1, "post", 1, 1, 2}};
  return run;
}

TEST(MetricsTable, HasEveryMetricAndTheConfusions) {
  const auto page = metrics_table(measured(), 3);
  EXPECT_THAT(page, HasSubstr("Test accuracy at round 3"));
  for (const char* text : {"50.0", "12.5", "62.5", "81.2", "6.2", "1.75"})
    EXPECT_THAT(page, HasSubstr(text));
  EXPECT_THAT(page, HasSubstr("Confusion matrix"));
  // 5 of 8 are found, and all that were taken for well are; 2 of 5 that were taken for ill are.
  EXPECT_THAT(page, HasSubstr("100.0"));
  EXPECT_THAT(page, HasSubstr("40.0"));
  EXPECT_THAT(page, HasSubstr("&lt;ill&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<ill>")));
  EXPECT_EQ(metrics_table(measured(), 2), "");
}

TEST(MetricsTable, IsLedByTheRunsMetric) {
  auto run = measured();
  run.meta.metric = "auroc";
  const auto page = metrics_table(run, 3);
  EXPECT_THAT(page, HasSubstr("Test AUROC at round 3"));
  EXPECT_THAT(page, Not(HasSubstr("Per sample"))) << "only accuracy has that";
  EXPECT_THAT(page, HasSubstr("75.0")) << "the worse client";
  EXPECT_THAT(page, HasSubstr("87.5")) << "the better one";
}

TEST(MetricsTable, DrawsNoConfusionsOfManyClasses) {
  auto run = measured();
  run.confusions.push_back({3, 0, "post", 20, 0, 1});
  EXPECT_THAT(metrics_table(run, 3), Not(HasSubstr("Confusion matrix")));
}

}  // namespace
}  // namespace tessera

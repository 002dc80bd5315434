#include "base/metric.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

const double kNone = std::nan("");

TEST(Metric, KnowsWhatIsBetter) {
  EXPECT_TRUE(metric_of("auroc").better(0.9, 0.8));
  EXPECT_FALSE(metric_of("auroc").better(0.8, 0.8));
  EXPECT_TRUE(metric_of("loss").better(0.8, 0.9));
  EXPECT_TRUE(metric_of("ece").better(0.1, 0.2));
  for (const auto& metric : metrics()) {
    EXPECT_TRUE(metric.better(0.5, kNone)) << metric.name;
    EXPECT_FALSE(metric.better(kNone, 0.5)) << metric.name;
    EXPECT_FALSE(metric.better(kNone, kNone)) << metric.name;
    EXPECT_EQ(metric_of(metric.name).title, metric.title);
  }
  EXPECT_EQ(metric_of("no such thing").name, "accuracy");
}

TEST(Metric, TextHasTheUnitOfTheMetric) {
  EXPECT_EQ(metric_of("auroc").text(0.8126), "81.3");
  EXPECT_EQ(metric_of("loss").text(0.8126), "0.813");
  EXPECT_EQ(metric_of("loss").text(kNone), "–");
}

TEST(MetricSpread, WorstIsWhatTheMetricCallsWorst) {
  std::vector<double> values{kNone};
  for (int i = 10; i >= 0; --i) values.push_back(i);  // 0 … 10: eleven, so two make a tenth
  const auto high = spread_of(metric_of("accuracy"), values);
  EXPECT_DOUBLE_EQ(high.mean, 5);
  EXPECT_NEAR(high.std, std::sqrt(10.0), 1e-12);  // (11² − 1) / 12
  EXPECT_EQ(high.min, 0);
  EXPECT_EQ(high.max, 10);
  EXPECT_DOUBLE_EQ(high.worst10, 0.5);
  EXPECT_DOUBLE_EQ(high.best10, 9.5);
  const auto low = spread_of(metric_of("loss"), values);
  EXPECT_DOUBLE_EQ(low.worst10, 9.5);
  EXPECT_DOUBLE_EQ(low.best10, 0.5);
  EXPECT_EQ(low.min, 0);
  EXPECT_EQ(low.max, 10);
  EXPECT_TRUE(std::isnan(spread_of(metric_of("loss"), {kNone}).mean));
}

}  // namespace
}  // namespace tessera

#include "report/axis.hpp"

#include <gmock/gmock.h>

#include <cmath>

namespace tessera::svg {
namespace {

using testing::ElementsAre;
using testing::Pointwise;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<std::string> texts(const AxisMap& map) {
  std::vector<std::string> out;
  for (const auto& tick : map.ticks()) out.push_back(tick.text);
  return out;
}

TEST(NiceTicks, KnownRanges) {
  EXPECT_THAT(nice_ticks(0, 100, 5), ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_THAT(nice_ticks(0, 10, 4), ElementsAre(0, 2.5, 5, 7.5, 10));
  EXPECT_THAT(nice_ticks(0, 3, 10, true), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(nice_ticks(-3, 3, 6), ElementsAre(-3, -2, -1, 0, 1, 2, 3));
  EXPECT_THAT(nice_ticks(0.13, 0.42, 3),
              Pointwise(testing::DoubleNear(1e-12), std::vector<double>{0.2, 0.3, 0.4}));
}

TEST(NiceTicks, OneValueGetsTicksAroundIt) {
  const auto ticks = nice_ticks(7, 7, 4);
  ASSERT_GE(ticks.size(), 2u);
  EXPECT_LT(ticks.front(), 7);
  EXPECT_GT(ticks.back(), 7);
}

TEST(NiceTicks, ImpossibleRangesHaveNone) {
  EXPECT_TRUE(nice_ticks(1, 0, 5).empty());
  EXPECT_TRUE(nice_ticks(kNan, 1, 5).empty());
  EXPECT_TRUE(nice_ticks(0, kInf, 5).empty());
  EXPECT_LE(nice_ticks(-1.7e308, 1.7e308, 5).size(), 21u);
}

TEST(Unit, FollowsTheLargestValue) {
  EXPECT_EQ(unit_of(Quantity::kBytes, 999).name, "bytes");
  EXPECT_EQ(unit_of(Quantity::kBytes, 2.5e6).name, "MB");
  EXPECT_EQ(unit_of(Quantity::kSeconds, 119).name, "s");
  EXPECT_EQ(unit_of(Quantity::kSeconds, 121).name, "min");
  EXPECT_EQ(unit_of(Quantity::kSeconds, 7201).name, "h");
}

TEST(AxisMap, LinearPixelsAndOutwardEnds) {
  const AxisMap map({"Accuracy", Quantity::kFraction}, 0.13, 0.87, 300, 100, 5);
  EXPECT_EQ(map.title(), "Accuracy (%)");
  EXPECT_THAT(texts(map), ElementsAre("0", "20", "40", "60", "80", "100"));
  EXPECT_DOUBLE_EQ(map(0), 300);
  EXPECT_DOUBLE_EQ(map(0.5), 200);
  EXPECT_DOUBLE_EQ(map(1), 100);
}

TEST(AxisMap, TightAxisEndsAtTheData) {
  Axis axis{"Traffic", Quantity::kBytes};
  axis.tight = true;
  const AxisMap map(axis, 0, 3.3e6, 0, 330, 3);
  EXPECT_EQ(map.title(), "Traffic (MB)");
  EXPECT_THAT(texts(map), ElementsAre("0", "2"));
  EXPECT_DOUBLE_EQ(map(3.3e6), 330);
  EXPECT_NEAR(map(1.1e6), 110, 1e-9);
}

TEST(AxisMap, LogarithmicDecadesAreEquallyFar) {
  const AxisMap map({"Loss", Quantity::kNumber, Scale::kLog}, 0.01, 100, 0, 400, 5);
  EXPECT_THAT(texts(map), ElementsAre("0.01", "0.1", "1", "10", "100"));
  EXPECT_NEAR(map(0.1), 100, 1e-9);
  EXPECT_NEAR(map(1), 200, 1e-9);
  EXPECT_NEAR(map(-5), 0, 1e-9) << "values without a logarithm are clamped";
}

TEST(AxisMap, LogFallsBackToLinearWithoutPositiveValues) {
  const AxisMap map({"x", Quantity::kNumber, Scale::kLog}, 0, 10, 0, 100, 5);
  EXPECT_DOUBLE_EQ(map(5), 50);
}

TEST(AxisMap, EveryPixelIsFinite) {
  for (const double low : {kNan, -kInf, 0.0, 5.0, -1.7e308}) {
    for (const double high : {kNan, kInf, 0.0, 5.0, 1.7e308}) {
      for (const auto scale : {Scale::kLinear, Scale::kLog}) {
        const AxisMap map({"x", Quantity::kNumber, scale}, low, high, 10, 20, 5);
        for (const double value : {kNan, kInf, -kInf, 0.0, 5.0, 1e308}) {
          ASSERT_TRUE(std::isfinite(map(value))) << low << " " << high << " " << value;
          ASSERT_GE(map(value), 10);
          ASSERT_LE(map(value), 20);
        }
        ASSERT_LE(map.ticks().size(), 65u);
      }
    }
  }
}

TEST(ValueText, UnitsAndAbsence) {
  EXPECT_EQ(value_text(Quantity::kFraction, 0.8421), "84.2\u00a0%");
  EXPECT_EQ(value_text(Quantity::kBytes, 1.2e6), "1.20 MB");
  EXPECT_EQ(value_text(Quantity::kCount, 12), "12");
  EXPECT_EQ(value_text(Quantity::kNumber, 1.1), "1.10");
  EXPECT_EQ(value_text(Quantity::kNumber, 250), "250");
  EXPECT_EQ(value_text(Quantity::kNumber, kNan), "–");
  EXPECT_EQ(points_text(-0.0342), "−3.4");
  EXPECT_EQ(points_text(0.0118), "+1.2");
}

}  // namespace
}  // namespace tessera::svg

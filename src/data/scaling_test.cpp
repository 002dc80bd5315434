#include "data/scaling.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/inputs.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using Rows = std::vector<int64_t>;

TEST(Scaling, SumsGiveMeanAndDeviation) {
  // Rows (1, 7), (100, 100), (3, 7); the one in the middle is not a training row.
  const std::vector<float> x{1, 7, 100, 100, 3, 7};
  FeatureSums sums({2});
  sums.add(x.data(), Rows{0, 2});
  EXPECT_THAT(sums.n, ElementsAre(2, 2));
  EXPECT_THAT(sums.sum, ElementsAre(4, 14));
  EXPECT_THAT(sums.squares, ElementsAre(10, 98));
  EXPECT_EQ(sums.deviation(0), 1);  // (1 − 2)² and (3 − 2)²
  EXPECT_EQ(sums.deviation(1), 0);
  const auto scaling = scaling_of(sums, {});
  EXPECT_THAT(scaling.mean, ElementsAre(2, 7));
  EXPECT_THAT(scaling.scale, ElementsAre(1, 0));
  const auto scaled = apply_scaling(at::tensor({1.f, 7.f, 100.f, 100.f}).view({2, 2}), scaling);
  EXPECT_TRUE(scaled.equal(at::tensor({-1.f, 0.f, 98.f, 0.f}).view({2, 2})));
}

TEST(Scaling, SumsOfClientsAreThoseOfAllRows) {
  const std::vector<float> a{1, 3}, b{5, 7};
  FeatureSums one({1}), other({1});
  one.add(a.data(), Rows{0, 1});
  other.add(b.data(), Rows{0, 1});
  one.add(other);
  const auto scaling = scaling_of(one, {});
  EXPECT_THAT(scaling.mean, ElementsAre(4));
  EXPECT_FLOAT_EQ(scaling.scale[0], 1 / std::sqrt(5.f));  // (9 + 1 + 1 + 9) / 4 = 5
}

TEST(Scaling, AFeatureOfASequenceIsPooledOverTime) {
  // One sequence of two steps: (1, 10), (5, 30).
  const std::vector<float> x{1, 10, 5, 30};
  FeatureSums sums({2, 2});
  sums.add(x.data(), Rows{0});
  const auto scaling = scaling_of(sums, {});
  EXPECT_THAT(scaling.mean, ElementsAre(3, 20));
  EXPECT_THAT(scaling.scale, ElementsAre(0.5f, 0.1f));
  EXPECT_TRUE(apply_scaling(at::tensor({1.f, 10.f, 5.f, 30.f}).view({1, 2, 2}), scaling)
                  .flatten()
                  .equal(at::tensor({-1.f, -1.f, 1.f, 1.f})));
}

TEST(Scaling, PicturesByChannel) {
  // Two channels of 1×2: (0, 2) and (10, 14).
  const std::vector<float> x{0, 2, 10, 14};
  FeatureSums sums({2, 1, 2});
  sums.add(x.data(), Rows{0});
  const auto scaling = scaling_of(sums, {});
  EXPECT_THAT(scaling.mean, ElementsAre(1, 12));
  EXPECT_THAT(scaling.scale, ElementsAre(1, 0.5f));
  EXPECT_TRUE(apply_scaling(at::tensor({0.f, 2.f, 10.f, 14.f}).view({1, 2, 1, 2}), scaling)
                  .flatten()
                  .equal(at::tensor({-1.f, 1.f, -1.f, 1.f})));
}

TEST(Scaling, KeptFeaturesAndNoScalingChangeNothing) {
  const std::vector<float> x{0, 1, 1, 4};
  FeatureSums sums({2});
  sums.add(x.data(), Rows{0, 1});
  const auto scaling = scaling_of(sums, {true, false});
  EXPECT_THAT(scaling.mean, ElementsAre(0, 2.5f));
  EXPECT_THAT(scaling.scale, ElementsAre(1, 1 / 1.5f));
  const auto same = at::ones({3, 2});
  EXPECT_TRUE(apply_scaling(same, {}).equal(same));
  EXPECT_ANY_THROW(apply_scaling(at::ones({3, 4}), scaling));
  EXPECT_ANY_THROW(apply_scaling(at::ones({3, 2, 3, 3}).flatten(), scaling));
}

TEST(Scaling, RoundingDoesNotMakeAConstantVary) {
  const std::vector<float> constant(1000000, 0.1f), far{1000000, 1000001};
  Rows rows(1000000);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  FeatureSums sums({1}), apart({1});
  sums.add(constant.data(), rows);
  EXPECT_EQ(sums.deviation(0), 0);
  apart.add(far.data(), Rows{0, 1});
  EXPECT_NEAR(apart.deviation(0), 0.5, 1e-3);
  EXPECT_EQ(FeatureSums({1}).deviation(0), 0);  // no rows
  EXPECT_THAT(scaling_of(FeatureSums({1}), {}).scale, ElementsAre(0));
}

}  // namespace
}  // namespace tessera

#include "method/mosaic/groups.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

namespace tessera {
namespace {

using ::testing::ElementsAre;

// Class means 1 and 5. Two samples of class 0 and one of class 1 sum up to 11 where 7 are expected.
TEST(Groups, AShiftIsWhatClassesDoNotExplain) {
  const FeatureMoments all{at::tensor({0.5F, 0.5F}), at::tensor({1.0F, 5.0F}).view({2, 1}),
                           at::ones({1, 1})};
  const ClassSums own{at::tensor({2.0, 1.0}, at::kDouble),
                      at::tensor({4.0, 7.0}, at::kDouble).view({2, 1})};
  EXPECT_NEAR(feature_shift(own, all).item<double>(), 4.0 / 3, 1e-12);
}

// Variance 4, class means 4 apart: classes have the squared distance 16 / 4. Shifts 3 apart have
// 9 / 4, of which 1/10 + 1/5 is chance.
TEST(Groups, DistancesAreInUnitsOfThoseBetweenClasses) {
  const FeatureMoments all{at::tensor({0.5F, 0.5F}), at::tensor({0.0F, 4.0F}).view({2, 1}),
                           at::full({1, 1}, 4.0F)};
  const auto shifts = at::tensor({0.0, 3.0, 0.1}, at::kDouble).view({3, 1});
  const auto far = shift_distances(shifts, at::tensor({10.0, 5.0, 5.0}, at::kDouble), all);
  EXPECT_NEAR(far[0][1].item<double>(), (2.25 - 0.3) / 4, 1e-12);
  EXPECT_EQ(far[1][0].item<double>(), far[0][1].item<double>());
  EXPECT_EQ(far[0][2].item<double>(), 0) << "no more than chance";
  EXPECT_EQ(far[1][1].item<double>(), 0);
}

TEST(Groups, NumbersBeyondAllBoundsSplitNobody) {
  const FeatureMoments all{at::tensor({0.5F, 0.5F}), at::tensor({0.0F, 4.0F}).view({2, 1}),
                           at::full({1, 1}, INFINITY)};
  const auto shifts = at::tensor({0.0, 3.0, INFINITY, -1.0}, at::kDouble).view({4, 1});
  const auto far = shift_distances(shifts, at::full({4}, 9.0, at::kDouble), all);
  EXPECT_TRUE(far.eq(0).all().item<bool>());
  EXPECT_THAT(groups_by_distance(far, 0.03, 3), ElementsAre(0, 0, 0, 0));
}

Tensor line(const std::vector<double>& places) {
  const auto at = at::tensor(places, at::kDouble);
  return (at.unsqueeze(0) - at.unsqueeze(1)).abs();
}

TEST(Groups, NearOnesAreTogether) {
  const auto far = line({0, 10, 0.1, 10.1});
  EXPECT_THAT(groups_by_distance(far, 1, 2), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(groups_by_distance(far, 100, 2), ElementsAre(0, 0, 0, 0));
}

// Two pairs whose nearest members are 0.9 apart, but 1.2 on average.
TEST(Groups, WhatCountsIsTheMeanOverMembers) {
  const auto far = line({0, 0.5, 1.4, 1.5});
  EXPECT_THAT(groups_by_distance(far, 1, 2), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(groups_by_distance(far, 1.21, 2), ElementsAre(0, 0, 0, 0));
}

TEST(Groups, SmallOnesJoinTheNearest) {
  EXPECT_THAT(groups_by_distance(line({0, 0.1, 5, 5.1, 7}), 0.5, 2), ElementsAre(0, 0, 1, 1, 1));
  EXPECT_THAT(groups_by_distance(line({0, 0.1, 5, 5.1, 7}), 0.5, 1), ElementsAre(0, 0, 1, 1, 2));
  EXPECT_THAT(groups_by_distance(line({0, 0.1, 0.2, 5, 5.1, 7}), 0.5, 3),
              ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(groups_by_distance(line({0, 1, 5}), 0.5, 2), ElementsAre(0, 0, 0));
  EXPECT_THAT(groups_by_distance(line({3}), 0.5, 2), ElementsAre(0));
}

}  // namespace
}  // namespace tessera

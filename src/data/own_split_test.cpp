#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "data/own.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Rows = std::vector<int64_t>;

TEST(StratifiedCounts, AreSharesRoundedToTheTotal) {
  EXPECT_THAT(stratified_counts({10, 5}, 0.2), ElementsAre(2, 1));
  // 2.5 of 10 rows are 3: 1.75 and 0.75 lack the same, the lower class comes first, then the other.
  EXPECT_THAT(stratified_counts({7, 3}, 0.25), ElementsAre(2, 1));
  // 4.2 of 21: 4. Shares 1.4, 1.6 and 1.2, and the second lacks most.
  EXPECT_THAT(stratified_counts({7, 8, 6}, 0.2), ElementsAre(1, 2, 1));
  EXPECT_THAT(stratified_counts({10}, 0.3), ElementsAre(3));  // 2.999… in binary
  EXPECT_THAT(stratified_counts({0, 4}, 0.5), ElementsAre(0, 2));
}

TEST(StratifiedCounts, LeaveOneOfEachClass) {
  EXPECT_THAT(stratified_counts({19, 1}, 0.2), ElementsAre(4, 0));
  EXPECT_THAT(stratified_counts({1, 1, 1}, 0.5), ElementsAre(0, 0, 0));
  EXPECT_THAT(stratified_counts({2, 2}, 0.9), ElementsAre(1, 1));
  // 2.7 of 3 would be 3; the class with two rows gives one.
  EXPECT_THAT(stratified_counts({2, 1}, 0.9), ElementsAre(1, 0));
  // 4 of 6 rows, and only the second class has them: more than its share of 2.
  EXPECT_THAT(stratified_counts({1, 3, 1, 1}, 0.6), ElementsAre(0, 2, 0, 0));
}

ClientRows all_rows(int64_t n) {
  ClientRows out;
  out.train.resize(static_cast<size_t>(n));
  std::iota(out.train.begin(), out.train.end(), 0);
  return out;
}
// Fifteen rows of class 0, then five of class 1.
std::vector<int64_t> fifteen_and_five() {
  std::vector<int64_t> y(20, 0);
  std::fill(y.begin() + 15, y.end(), 1);
  return y;
}
int64_t ones(const Rows& rows, const std::vector<int64_t>& y) {
  return std::count_if(rows.begin(), rows.end(),
                       [&](int64_t row) { return y[static_cast<size_t>(row)] == 1; });
}

TEST(SplitRows, EveryPartHasTheClassesInProportion) {
  const auto y = fifteen_and_five();
  auto rows = all_rows(20);
  ASSERT_TRUE(split_rows(rows, y, {.test = 0.2, .val = 0.25, .key = 7}).ok());
  // Test: 4 of 20 (3 and 1). Validation: 4 of the 16 left, of which 12 and 4.
  EXPECT_EQ(rows.test.size(), 4u);
  EXPECT_EQ(ones(rows.test, y), 1);
  EXPECT_EQ(rows.val.size(), 4u);
  EXPECT_EQ(ones(rows.val, y), 1);
  EXPECT_EQ(rows.train.size(), 12u);
  EXPECT_EQ(ones(rows.train, y), 3);
  EXPECT_TRUE(std::is_sorted(rows.test.begin(), rows.test.end()));
  EXPECT_FALSE(std::is_sorted(rows.train.begin(), rows.train.end()));
  auto together = rows.train;
  together.insert(together.end(), rows.val.begin(), rows.val.end());
  together.insert(together.end(), rows.test.begin(), rows.test.end());
  std::sort(together.begin(), together.end());
  EXPECT_EQ(together, all_rows(20).train);
}

TEST(SplitRows, DependOnTheKeyAlone) {
  const auto y = fifteen_and_five();
  const auto test_rows = [&](uint64_t key) {
    auto rows = all_rows(20);
    EXPECT_TRUE(split_rows(rows, y, {.test = 0.2, .val = 0.1, .key = key}).ok());
    return rows.test;
  };
  EXPECT_EQ(test_rows(1), test_rows(1));
  EXPECT_NE(test_rows(1), test_rows(2));
}

TEST(SplitRows, TimeTakesTheLastRows) {
  auto rows = all_rows(20);
  ASSERT_TRUE(
      split_rows(rows, fifteen_and_five(), {.test = 0.2, .val = 0.25, .order = {true, 0}, .key = 1})
          .ok());
  EXPECT_THAT(rows.test, ElementsAre(16, 17, 18, 19));
  EXPECT_THAT(rows.val, ElementsAre(12, 13, 14, 15));
  EXPECT_EQ(rows.train, all_rows(12).train);  // still by time
}

// Rows overlap with the two after them. Test: 4 of 20; 14 and 15 go. Validation: 4 of the 14 left;
// 8 and 9 go.
TEST(SplitRows, TimeLeavesOutWhatOverlaps) {
  auto rows = all_rows(20);
  const SplitPlan plan{.test = 0.2, .val = 0.25, .order = {true, 2}, .key = 1};
  ASSERT_TRUE(split_rows(rows, fifteen_and_five(), plan).ok());
  EXPECT_THAT(rows.test, ElementsAre(16, 17, 18, 19));
  EXPECT_THAT(rows.val, ElementsAre(10, 11, 12, 13));
  EXPECT_EQ(rows.train, all_rows(8).train);
  // One row stays, however wide the gap.
  rows = all_rows(4);
  ASSERT_TRUE(split_rows(rows, {0, 1, 0, 1}, {.test = 0.25, .order = {true, 9}}).ok());
  EXPECT_THAT(rows.train, ElementsAre(0));
  EXPECT_THAT(rows.test, ElementsAre(3));
}

TEST(SplitRows, SamplesOfATimeSeriesAreOfAllOfIt) {
  auto rows = all_rows(15);
  const SplitPlan plan{.test = 0.2, .val = 0, .order = {true, 0}, .samples = 4, .key = 1};
  ASSERT_TRUE(split_rows(rows, std::vector<int64_t>(15), plan).ok());
  EXPECT_THAT(rows.train, ElementsAre(0, 3, 6, 9));  // of 12
}

TEST(SplitRows, PartsOfTheFileStayAsTheyAre) {
  auto rows = all_rows(16);
  rows.test = {16, 17, 18, 19};
  ASSERT_TRUE(split_rows(rows, fifteen_and_five(), {.test = 0.5, .val = 0.25, .key = 1}).ok());
  EXPECT_THAT(rows.test, ElementsAre(16, 17, 18, 19));
  EXPECT_EQ(rows.val.size(), 4u);
  EXPECT_EQ(rows.train.size(), 12u);
  rows = all_rows(16), rows.test = {19}, rows.val = {17, 18};
  ASSERT_TRUE(split_rows(rows, fifteen_and_five(), {.test = 0.5, .val = 0.25, .key = 1}).ok());
  EXPECT_EQ(rows.train.size(), 16u);
}

TEST(SplitRows, FewRowsStillGiveOneToTestOn) {
  auto rows = all_rows(2);
  ASSERT_TRUE(split_rows(rows, {0, 1}, {.test = 0.2, .val = 0.9, .key = 1}).ok());
  EXPECT_EQ(rows.train.size(), 1u);
  EXPECT_EQ(rows.test.size(), 1u);
  EXPECT_THAT(rows.val, IsEmpty());
  rows = all_rows(2);
  ASSERT_TRUE(split_rows(rows, {0, 1}, {.test = 0.9, .val = 0.9, .order = {true, 0}}).ok());
  EXPECT_THAT(rows.train, ElementsAre(0));
  EXPECT_THAT(rows.test, ElementsAre(1));
  rows = all_rows(1);
  EXPECT_THAT(message(split_rows(rows, {0}, {.test = 0.2})), HasSubstr("at least two"));
}

TEST(SplitRows, SamplesThinTheTrainingRowsOnly) {
  auto rows = all_rows(20);
  ASSERT_TRUE(
      split_rows(rows, fifteen_and_five(), {.test = 0.2, .val = 0.25, .samples = 5, .key = 1})
          .ok());
  EXPECT_EQ(rows.train.size(), 5u);
  EXPECT_EQ(rows.test.size(), 4u);
  EXPECT_EQ(rows.val.size(), 4u);
}

}  // namespace
}  // namespace tessera

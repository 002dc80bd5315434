#include "data/disjoint_parts.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

namespace tessera {
namespace {

/// 23, 7 and 4 training rows of three classes and 12 support rows of the first.
ClientData some_client() {
  auto pool = std::make_shared<Pool>();
  std::vector<int64_t> y;
  for (const auto& [label, count] : {std::pair{0, 23}, {1, 7}, {2, 4}, {0, 12}})
    y.insert(y.end(), static_cast<size_t>(count), label);
  pool->y = at::tensor(y, at::kLong), pool->x = at::zeros({std::ssize(y), 1}), pool->classes = 3;
  ClientData out;
  out.name = "7", out.pool = pool, out.val = {1}, out.test = {0, 2};
  for (int64_t row = 0; row < 46; ++row) (row < 34 ? out.train : out.support).push_back(row);
  std::reverse(out.train.begin(), out.train.end());
  return out;
}

TEST(DisjointParts, EveryRowIsInOneOfThem) {
  const auto data = some_client();
  const auto parts = disjoint_parts(data, 5, 1);
  ASSERT_EQ(parts.size(), 5U);
  for (const auto from : {Part::kTrain, Part::kSupport}) {
    std::vector<int64_t> all;
    for (const auto& part : parts)
      all.insert(all.end(), part.rows(from).begin(), part.rows(from).end());
    EXPECT_THAT(all, ::testing::UnorderedElementsAreArray(data.rows(from)));
  }
  for (const auto& part : parts) {
    EXPECT_EQ(part.val, data.val);
    EXPECT_EQ(part.test, data.test);
    EXPECT_TRUE(std::is_sorted(part.train.rbegin(), part.train.rend())) << "in their old order";
  }
  EXPECT_EQ(parts[1].name, "7, part 2 of 5");
}

TEST(DisjointParts, EveryClassIsSharedOut) {
  const auto parts = disjoint_parts(some_client(), 5, 1);
  // 34 = 7 + 7 + 7 + 7 + 6; 23, 7 and 4 rows of a class are 4 or 5, 1 or 2, 0 or 1 for each.
  for (const auto& part : parts) {
    EXPECT_THAT(part.train_size(), ::testing::AnyOf(6, 7));
    EXPECT_THAT(part.class_counts(Part::kTrain),
                ::testing::ElementsAre(::testing::AnyOf(4, 5), ::testing::AnyOf(1, 2),
                                       ::testing::AnyOf(0, 1)));
  }
}

TEST(DisjointParts, FollowFromTheKeyAndTheClasses) {
  const auto data = some_client();
  const auto rows = [&](uint64_t key) { return disjoint_parts(data, 5, key)[0].train; };
  EXPECT_EQ(rows(1), rows(1));
  EXPECT_NE(rows(1), rows(2));
  // Another sample of class 0 in the place of the last row: no other row moves.
  auto other = data;
  other.train.back() = 40;
  const auto before = disjoint_parts(data, 5, 1), after = disjoint_parts(other, 5, 1);
  int changed = 0;
  for (size_t i = 0; i < 5; ++i) changed += before[i].train != after[i].train;
  EXPECT_EQ(changed, 1);
}

TEST(DisjointParts, SeriesAreCutIntoStretchesThatShareNoValue) {
  auto data = some_client();
  std::sort(data.train.begin(), data.train.end());
  data.order = {.chronological = true, .gap = 2};
  const auto parts = disjoint_parts(data, 3, 1);
  // 34 rows: cuts before 11 and 22, and two rows left out before each.
  EXPECT_EQ(parts[0].train.back(), 8);
  EXPECT_EQ(parts[1].train.front(), 11);
  EXPECT_EQ(parts[1].train.back(), 19);
  EXPECT_EQ(parts[2].train.front(), 22);
  EXPECT_EQ(parts[2].train.back(), 33);
  data.order.gap = 100;
  for (const auto& part : disjoint_parts(data, 3, 1))
    EXPECT_GE(part.train_size(), 1) << "one row stays";
}

}  // namespace
}  // namespace tessera

#include "method/mosaic/held_rows.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

/// Rows 100, 101, … of a pool, `counts` of each class in turn.
ClientData rows_of(const std::vector<int64_t>& counts) {
  std::vector<int64_t> labels(100, 0);
  for (size_t c = 0; c < counts.size(); ++c)
    labels.insert(labels.end(), static_cast<size_t>(counts[c]), static_cast<int64_t>(c));
  auto pool = std::make_shared<Pool>();
  pool->y = at::tensor(labels, at::kLong);
  pool->x = at::zeros({pool->y.size(0), 1});
  pool->classes = static_cast<int64_t>(counts.size());
  ClientData out;
  out.pool = pool;
  out.train.resize(labels.size() - 100);
  std::iota(out.train.begin(), out.train.end(), 100);
  return out;
}

TEST(HeldRows, EveryClassGivesItsShareToWithinARow) {
  const auto data = rows_of({23, 7, 41, 0, 2});
  for (uint64_t key = 0; key < 20; ++key) {
    const auto [kept, held] = hold_rows(data, 0.2, key);
    const auto of_class = held.class_counts(Part::kTrain);
    const auto all = data.class_counts(Part::kTrain);
    for (size_t c = 0; c < all.size(); ++c)
      EXPECT_LE(std::abs(static_cast<double>(of_class[c]) - 0.2 * static_cast<double>(all[c])), 1);
    EXPECT_NEAR(static_cast<double>(held.train_size()), 0.2 * 73, 1);
    auto both = kept.train;
    both.insert(both.end(), held.train.begin(), held.train.end());
    std::sort(both.begin(), both.end());
    EXPECT_EQ(both, data.train);
  }
}

TEST(HeldRows, FollowFromTheKey) {
  const auto data = rows_of({50, 50});
  EXPECT_EQ(hold_rows(data, 0.2, 5).held.train, hold_rows(data, 0.2, 5).held.train);
  EXPECT_NE(hold_rows(data, 0.2, 5).held.train, hold_rows(data, 0.2, 6).held.train);
}

TEST(HeldRows, SomethingIsLeftToTrainOn) {
  for (uint64_t key = 0; key < 20; ++key) {
    EXPECT_EQ(hold_rows(rows_of({1}), 0.9, key).kept.train_size(), 1);
    EXPECT_EQ(hold_rows(rows_of({0}), 0.5, key).held.train_size(), 0);
  }
}

TEST(HeldRows, OfATimeSeriesAreTheLatest) {
  auto data = rows_of({10, 10});
  data.order = {true, 3};
  const auto [kept, held] = hold_rows(data, 0.2, 1);
  EXPECT_EQ(held.train, (std::vector<int64_t>{116, 117, 118, 119}));
  EXPECT_EQ(kept.train.back(), 112);  // 113 … 115 share values with 116
}

}  // namespace
}  // namespace tessera

#include "data/client_data.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;

ClientData with_rows(std::vector<int64_t> rows, RowOrder order) {
  ClientData out;
  out.train = std::move(rows);
  out.order = order;
  return out;
}

TEST(ClientData, RowsInRandomOrderAreCutAnywhere) {
  const auto data = with_rows({9, 3, 7, 5, 1}, {});
  const auto cut = data.cut(2);
  EXPECT_EQ(cut.early, 3);
  EXPECT_EQ(cut.late, 3);
  EXPECT_THAT(data.sample(Part::kTrain, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(data.sample(Part::kTrain, 9), ElementsAre(0, 1, 2, 3, 4));
}

// Windows of 6 hours every 2 hours, and some are missing: row 20 is the first of the later part,
// and those that start at 14 or later end within it, the hour of their label included.
TEST(ClientData, ACutThroughTimeLeavesOutRowsThatShareHours) {
  const auto data = with_rows({0, 2, 4, 10, 12, 14, 18, 20, 22, 24}, {true, 6});
  const auto cut = data.cut(3);
  EXPECT_EQ(cut.late, 7);
  EXPECT_EQ(cut.early, 5);
  EXPECT_EQ(data.cut(0).early, 10) << "nothing to keep away from";
  EXPECT_EQ(data.cut(9).early, 1) << "one stays";
  EXPECT_THAT(data.sample(Part::kTrain, 4), ElementsAre(0, 2, 5, 7)) << "every 2.5th";
  EXPECT_THAT(data.sample(Part::kTrain, 99).size(), 10u);
}

}  // namespace
}  // namespace tessera

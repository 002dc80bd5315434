#include "method/similarity/collaborate.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

using Row = std::vector<double>;

const Tensor& three() {
  static const Tensor matrix =
      at::tensor({1.0, 0.2, 0.4, 0.2, 1.0, 0.6, 0.4, 0.6, 1.0}, at::kDouble).view({3, 3});
  return matrix;
}

TEST(Collaborate, ThresholdOverPairsOrAllEntries) {
  EXPECT_DOUBLE_EQ(similarity_threshold(three(), 0.5, false), 0.4);  // of 0.2 0.4 0.6
  EXPECT_DOUBLE_EQ(similarity_threshold(three(), 0.5, true), 0.6);   // of 0.2² 0.4² 0.6² 1³
  EXPECT_DOUBLE_EQ(similarity_threshold(three(), 0, false), 0.2);
  EXPECT_EQ(similarity_threshold(at::ones({1, 1}, at::kDouble), 0.5, false), -INFINITY);
  EXPECT_EQ(similarity_threshold(at::ones({0, 0}, at::kDouble), 0.5, true), -INFINITY);
}

TEST(Collaborate, ReachingTheThresholdIsEnough) {
  const Row row{0.3, 1, 0.5, 0.4};
  EXPECT_EQ(collaborators(row, 1, 0.4, 1), (Row{0, 1, 0.5, 0.4}));
  EXPECT_EQ(collaborators(row, 1, 0.4 + 5e-8, 1), (Row{0, 1, 0.5, 0.4}));  // rounding
  EXPECT_EQ(collaborators(row, 1, 0.4 + 2e-7, 1), (Row{0, 1, 0.5, 0}));
}

TEST(Collaborate, EverybodyWorksWithItself) {
  EXPECT_EQ(collaborators(Row{0.9, 0.9999999, 0.8}, 1, 1.5, 1), (Row{0, 0.9999999, 0}));
  EXPECT_EQ(collaborators(Row{1}, 0, -INFINITY, 1), (Row{1}));
}

TEST(Collaborate, NobodyWorksWithItsOpposite) {
  EXPECT_EQ(collaborators(Row{1, -0.5, 0, 0.1}, 0, -0.9, 1), (Row{1, 0, 0, 0.1}));
  EXPECT_EQ(collaborators(Row{1, -0.5, 0, 0.1}, 0, 0.1, 4), (Row{1, 0, 0, 0})) << "too few";
}

TEST(Collaborate, SmallGroupsAreFilledUpByTheMostSimilarOrDissolved) {
  const Row row{0.3, 0.6, 1, 0.5, 0.2}, alone{0, 0, 1, 0, 0};
  EXPECT_EQ(collaborators(row, 2, 0.6, 2), (Row{0, 0.6, 1, 0, 0}));  // large enough already
  EXPECT_EQ(collaborators(row, 2, 0.6, 3), (Row{0, 0.6, 1, 0.5, 0}));
  EXPECT_EQ(collaborators(row, 2, 0.6, 5), row);
  EXPECT_EQ(collaborators(row, 2, 0.6, 6), alone);  // there are not so many
  EXPECT_EQ(collaborators(row, 2, 0.9, 3), alone);  // who is alone stays alone
  // Of equals the first.
  EXPECT_EQ(collaborators(Row{0.3, 0.6, 1, 0.3, 0.2}, 2, 0.6, 3), (Row{0.3, 0.6, 1, 0, 0}));
}

}  // namespace
}  // namespace tessera

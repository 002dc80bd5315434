#include "tensor/cluster.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "base/key.hpp"

namespace tessera {
namespace {

// Around (0,0), (10,0) and (0,10) in turn: labels 0, 1, 2, 0, 1, 2, …
Tensor three_heaps(int64_t n) {
  auto points = at::zeros({n, 2}, at::kDouble);
  Rng rng(5);
  for (int64_t i = 0; i < n; ++i) {
    points[i][0] = (i % 3 == 1 ? 10 : 0) + 0.5 * rng.normal();
    points[i][1] = (i % 3 == 2 ? 10 : 0) + 0.5 * rng.normal();
  }
  return points;
}

Labels in_turn(int64_t n) {
  Labels out;
  for (int64_t i = 0; i < n; ++i) out.push_back(i % 3);
  return out;
}

TEST(Cluster, EmbeddingKeepsDistances) {
  auto points = at::empty({6, 9}, at::kDouble);
  Rng rng(1);
  for (int64_t i = 0; i < points.numel(); ++i) points.data_ptr<double>()[i] = 3 + rng.normal();
  const auto inner = points.mm(points.t());
  const auto found = embedding(inner);
  EXPECT_LE(found.size(1), 5);  // six points span five dimensions
  const auto again = squared_distances(found.mm(found.t()));
  EXPECT_LT((again - squared_distances(inner)).abs().max().item<double>(), 1e-9);
}

TEST(Cluster, OnePointOrEqualPointsHaveNoDimensions) {
  EXPECT_EQ(embedding(at::full({1, 1}, 4.0, at::kDouble)).size(1), 0);
  const auto same = embedding(at::full({3, 3}, 4.0, at::kDouble));
  EXPECT_EQ(kmeans(same, 1, 1), Labels({0, 0, 0}));
  EXPECT_EQ(mean_shift(same), Labels({0, 0, 0}));
}

TEST(Cluster, KmeansFindsTheHeapsWhateverTheKey) {
  for (uint64_t key = 0; key < 20; ++key)
    EXPECT_EQ(kmeans(three_heaps(30), 3, key), in_turn(30)) << key;
}

TEST(Cluster, KmeansNeverReturnsAnEmptyCluster) {
  // Four equal points and one apart: a third centre has nothing of its own to take.
  auto points = at::zeros({5, 1}, at::kDouble);
  points[4][0] = 7;
  for (uint64_t key = 0; key < 10; ++key) {
    const auto labels = kmeans(points, 3, key);
    EXPECT_EQ(std::set<int64_t>(labels.begin(), labels.end()).size(), 3U);
  }
  EXPECT_THROW(kmeans(points, 6, 1), std::invalid_argument);
}

TEST(Cluster, MeanShiftFindsHowManyThereAre) {
  EXPECT_EQ(mean_shift(three_heaps(30)), in_turn(30));
}

TEST(Cluster, SmallClustersJoinTheNearest) {
  // 0 and 1 are close; the single point at 3 is nearer to the pair at 5 than to them.
  const auto points = at::tensor({0.0, 0.1, 0.2, 3.0, 5.0, 5.1}, at::kDouble).unsqueeze(1);
  const Labels labels{0, 0, 0, 1, 2, 2};
  EXPECT_EQ(joined(labels, points, 1), labels);
  EXPECT_EQ(joined(labels, points, 2), Labels({0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(joined(labels, points, 3), Labels({0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(joined(labels, points, 4), Labels({0, 0, 0, 0, 0, 0}));
}

TEST(Cluster, NearestClusterIsByCentre) {
  // From x = 3.2: a member of the first at 2.9, but its centre 0.5; the second's centre is 5.
  const auto points = at::tensor({-1.9, 2.9, 5.0}, at::kDouble).unsqueeze(1);
  const auto between = (points - points.t()).square();
  const auto to_point = (points.squeeze(1) - 3.2).square();
  EXPECT_EQ(nearest_cluster({0, 0, 1}, to_point, between), 1);
  EXPECT_EQ(nearest_cluster({0, 0, 1}, (points.squeeze(1) - 2.7).square(), between), 0);
}

TEST(Cluster, NearestTakesTheFirstOfEquals) {
  const auto apart = at::tensor({4.0, 1.0, 1.0, 0.0, 1.0}, at::kDouble);
  EXPECT_EQ(nearest(apart, 3), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(nearest(apart, 9).size(), 5U);
}

}  // namespace
}  // namespace tessera

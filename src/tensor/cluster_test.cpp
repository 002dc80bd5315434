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

// `sizes` points around random centres, deviation 1 each way; the centres are some 300 apart.
Tensor heaps(const std::vector<int64_t>& sizes, uint64_t key) {
  constexpr int64_t kDimensions = 30;
  std::vector<Tensor> points;
  Rng rng(key);
  const auto drawn = [&] {
    auto out = at::empty({kDimensions}, at::kDouble);
    for (int64_t i = 0; i < kDimensions; ++i) out.data_ptr<double>()[i] = rng.normal();
    return out;
  };
  for (const int64_t size : sizes) {
    const auto centre = 40 * drawn();
    for (int64_t i = 0; i < size; ++i) points.push_back(centre + drawn());
  }
  return at::stack(points);
}

Labels one_after_the_other(const std::vector<int64_t>& sizes) {
  Labels out;
  for (size_t heap = 0; heap < sizes.size(); ++heap)
    out.insert(out.end(), static_cast<size_t>(sizes[heap]), static_cast<int64_t>(heap));
  return out;
}

TEST(Cluster, MeanShiftFindsOneToThirteenHeaps) {
  for (size_t count = 1; count <= 13; ++count)
    for (const int64_t size : {3, 4, 5, 8, 20}) {
      const std::vector<int64_t> sizes(count, size);
      EXPECT_EQ(mean_shift(heaps(sizes, count)), one_after_the_other(sizes))
          << count << " heaps of " << size;
    }
}

TEST(Cluster, MeanShiftFindsHeapsOfDifferentSizes) {
  for (size_t count = 2; count <= 13; ++count) {
    std::vector<int64_t> sizes;
    Rng rng(count);
    for (size_t i = 0; i < count; ++i) sizes.push_back(3 + static_cast<int64_t>(rng.below(18)));
    EXPECT_EQ(mean_shift(heaps(sizes, count)), one_after_the_other(sizes)) << count;
  }
}

TEST(Cluster, BandwidthIsTheMedianDistanceToANeighbour) {
  // Nine points on a line, one apart: m = max(2, ⌈3/2⌉) = 2. The second nearest of the two at the
  // ends are 2 away, of the seven others 1.
  const auto line = at::arange(9, at::kDouble).unsqueeze(1);
  EXPECT_DOUBLE_EQ(neighbour_bandwidth(line), 1);
  // 25 points: m = 3. The third nearest is 3 away at the two ends, else 2.
  EXPECT_DOUBLE_EQ(neighbour_bandwidth(at::arange(25, at::kDouble).unsqueeze(1)), 2);
  // Eight heaps {0, 1, 2} + 100 h: 24 points, m = 3, but a third neighbour is in another heap. The
  // second is 1, 2 and 2 away.
  const auto apart = (100 * at::arange(8, at::kDouble)).unsqueeze(1) + at::arange(3, at::kDouble);
  EXPECT_DOUBLE_EQ(neighbour_bandwidth(apart.reshape({24, 1})), 2);
  EXPECT_DOUBLE_EQ(neighbour_bandwidth(at::tensor({1.0, 4.0}, at::kDouble).unsqueeze(1)), 3);
  EXPECT_EQ(neighbour_bandwidth(at::zeros({1, 1}, at::kDouble)), 0);
}

TEST(Cluster, ABandwidthMayBeGiven) {
  const auto points = at::tensor({0.0, 1.0, 10.0, 11.0, 40.0, 41.0}, at::kDouble).unsqueeze(1);
  EXPECT_EQ(mean_shift(points, 0.1), Labels({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(mean_shift(points, 2), Labels({0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(mean_shift(points, 8), Labels({0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(mean_shift(points, 100), Labels(6, 0));
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

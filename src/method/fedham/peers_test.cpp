#include "method/fedham/peers.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using Places = std::vector<int64_t>;

// Models on a line: two heaps of three, and a further model nearer to the second.
const std::vector<Tensor> kRows{at::tensor({0.F}),  at::tensor({10.F}), at::tensor({1.F}),
                                at::tensor({11.F}), at::tensor({2.F}),  at::tensor({12.F}),
                                at::tensor({7.F})};

TEST(Peers, OneClusterIsEverybodyAndKeepsNothing) {
  for (const auto* by : {"none", "kmeans", "knn"}) {
    const PeerRule rule{by, 1, 3};
    const auto near = nearness(kRows, rule, 1);
    EXPECT_TRUE(near.everybody());
    EXPECT_EQ(peers_of(near, rule, 6, 1), (Places{0, 2, 3, 4, 5}));
    EXPECT_EQ(peers_near(near, rule, at::zeros({6}, at::kDouble)).size(), 6U);
  }
}

TEST(Peers, ClustersWithoutTheAsker) {
  const PeerRule rule{"kmeans", 2, 3};
  const auto near = nearness(kRows, rule, 1);
  EXPECT_EQ(peers_of(near, rule, 6, 0), (Places{2, 4}));
  EXPECT_EQ(peers_of(near, rule, 6, 3), (Places{1, 5}));
  EXPECT_EQ(peers_near(near, rule, near.distances[6]), (Places{1, 3, 5}));
}

TEST(Peers, NearestAreAShareOfAllButNeverTooFew) {
  const PeerRule third{"knn", 3, 1}, guarded{"knn", 3, 4};
  const auto near = nearness(kRows, third, 1);
  EXPECT_EQ(peers_of(near, third, 6, 0), Places{2});  // itself and one more: 6 / 3
  EXPECT_EQ(peers_of(near, guarded, 6, 0).size(), 3U);
  EXPECT_EQ(peers_near(near, third, near.distances[6]), (Places{1, 3}));
}

TEST(Peers, EqualModelsDoNotCrowdTheAskerOut) {
  const std::vector<Tensor> equal(5, at::tensor({1.F}));
  const PeerRule rule{"knn", 2, 1};
  EXPECT_EQ(peers_of(nearness(equal, rule, 1), rule, 4, 3).size(), 1U);
}

TEST(Peers, FewerModelsThanClusters) {
  const std::vector<Tensor> rows(kRows.begin(), kRows.begin() + 3);  // two models, one further
  const PeerRule rule{"kmeans", 5, 2};
  EXPECT_EQ(peers_of(nearness(rows, rule, 1), rule, 2, 0), Places{1});
}

}  // namespace
}  // namespace tessera

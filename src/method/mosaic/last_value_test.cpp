#include "method/mosaic/last_value.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

// Three classes: below 1, 1 to 3, above 3. The middle one is 2 wide, so bins are 0.5 wide.
const LastLabel kLast{1, {1.0F, 3.0F}};

TEST(LastValue, EveryClassHasFourBins) {
  EXPECT_EQ(bin_limits(kLast),
            (std::vector<float>{-0.5F, 0, 0.5F, 1, 1.5F, 2, 2.5F, 3, 3.5F, 4, 4.5F}));
  EXPECT_EQ(bin_limits({0, {2.0F}}),
            (std::vector<float>{1.25F, 1.5F, 1.75F, 2, 2.25F, 2.5F, 2.75F}));
}

// A value on a limit belongs to the class below it, as for persistence.
TEST(LastValue, BinsLieInsideClasses) {
  const auto x =
      at::tensor({9.0F, -7.0F, 9.0F, 1.0F, 9.0F, 1.1F, 9.0F, 3.0F, 9.0F, 80.0F}).view({5, 2});
  const auto bins = last_bins(kLast, x);
  EXPECT_TRUE(bins.equal(at::tensor({0, 3, 4, 7, 11}, at::kLong)));
  EXPECT_TRUE(bins.floor_divide(4).equal(at::tensor({0, 0, 1, 1, 2}, at::kLong)));
}

ClientData seen(std::vector<float> last, std::vector<int64_t> y) {
  ClientData out;
  const auto n = static_cast<int64_t>(y.size());
  const auto value = at::tensor(last).view({n, 1});
  out.pool = std::make_shared<Pool>(Pool{at::cat({at::zeros({n, 1}), value}, 1), at::tensor(y), 3});
  for (int64_t i = 0; i < n; ++i) out.train.push_back(i);
  out.last_label = std::make_shared<LastLabel>(kLast);
  return out;
}

TEST(LastValue, CountsWhatFollows) {
  auto client = seen({1.1F, 1.2F, 1.2F, 9.0F}, {1, 1, 0, 2});
  const auto counts = follow_counts(client);
  EXPECT_EQ(counts[4][1].item<double>(), 2);
  EXPECT_EQ(counts[4][0].item<double>(), 1);
  EXPECT_EQ(counts[11][2].item<double>(), 1);
  EXPECT_EQ(counts.sum().item<double>(), 4);
  client.last_label = nullptr;
  EXPECT_EQ(follow_counts(client).abs().sum().item<double>(), 0);
}

// Of four samples (1, 2, 1) classes have shares 2/7, 3/7, 2/7. After bin 4 were 1, 2, 0 samples:
// (1 + 2/7) / 4 and so on. A client with two samples of class 0 there, drawn by 6 more:
// (2 + 6 · 9/28) / 8.
TEST(LastValue, OwnSharesAreDrawnToEverybodys) {
  const auto all = follow_shares(follow_counts(seen({1.1F, 1.2F, 1.2F, 9.0F}, {1, 1, 0, 2})));
  EXPECT_NEAR(all[4][0].item<double>(), 9.0 / 28, 1e-12);
  EXPECT_NEAR(all[4][1].item<double>(), 17.0 / 28, 1e-12);
  EXPECT_NEAR(all[0][1].item<double>(), 3.0 / 7, 1e-12) << "nobody saw bin 0";
  const auto own = log_follow_shares(follow_counts(seen({1.3F, 1.4F}, {0, 0})), all, 6);
  EXPECT_NEAR(own[4][0].item<double>(), std::log((2 + 6 * 9.0 / 28) / 8), 1e-12);
  EXPECT_NEAR(own[4][1].item<double>(), std::log(6 * 17.0 / 28 / 8), 1e-12);
}

}  // namespace
}  // namespace tessera

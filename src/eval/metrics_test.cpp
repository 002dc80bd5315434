#include "eval/metrics.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

// truth     0 0 0 1 1 2      class 0: TP 2, predicted 3; class 1: TP 1, predicted 2
// predicted 0 0 1 1 0 4      class 2: TP 0, predicted 0; class 4 is never true
const std::vector<int64_t> kTruth{0, 0, 0, 1, 1, 2}, kPredicted{0, 0, 1, 1, 0, 4};

TEST(ClassMetrics, ByHand) {
  const auto m = class_metrics(kPredicted, kTruth, 6);
  EXPECT_EQ(m.n, 6);
  EXPECT_EQ(m.correct, 3);
  EXPECT_DOUBLE_EQ(m.precision_macro, (2.0 / 3 + 1.0 / 2 + 0) / 3);
  // 2TP/(pred+true): 4/6, 2/4, 0/1, and the spurious class 4: 0/1.
  EXPECT_DOUBLE_EQ(m.f1_macro, (4.0 / 6 + 2.0 / 4 + 0 + 0) / 4);
}

TEST(ClassMetrics, RemapBlamesAClassOfTheClient) {
  // The 4 becomes 0 (the smallest class that is not the true 2): class 0 is predicted 4 times.
  const auto m = class_metrics(kPredicted, kTruth, 6);
  EXPECT_DOUBLE_EQ(m.f1_remap, (4.0 / 7 + 2.0 / 4 + 0) / 3);
}

TEST(ClassMetrics, RemapWithASingleClassOnlyMisses) {
  const auto m =
      class_metrics(std::vector<int64_t>{3, 5, 3, 3}, std::vector<int64_t>{3, 3, 3, 3}, 6);
  EXPECT_DOUBLE_EQ(m.f1_remap, 6.0 / 7);            // TP 3, predicted 3, true 4
  EXPECT_DOUBLE_EQ(m.f1_macro, (6.0 / 7 + 0) / 2);  // class 5 spoils the mean
}

TEST(Summarize, ByHand) {
  std::vector<ClientMetrics> clients;
  for (int i = 0; i < 11; ++i) clients.push_back({10, i == 10 ? 10 : i, 1.0 * i, 0.5, 0.25, 0.75});
  clients[10].n = 40;  // accuracy 10/40
  const auto s = summarize(clients);
  EXPECT_NEAR(s.mean, (4.5 + 0.25) / 11, 1e-12);  // 0.0 … 0.9 sum to 4.5
  double variance = 0;
  for (int i = 0; i < 10; ++i) variance += std::pow(0.1 * i - s.mean, 2) / 11;
  variance += std::pow(0.25 - s.mean, 2) / 11;
  EXPECT_NEAR(s.std, std::sqrt(variance), 1e-12);
  EXPECT_NEAR(s.micro, 55.0 / 140, 1e-12);
  EXPECT_EQ(s.min, 0.0);
  EXPECT_EQ(s.max, 0.9);
  EXPECT_NEAR(s.worst10, (0.0 + 0.1) / 2, 1e-12);  // ceil(1.1) = 2 clients
  EXPECT_NEAR(s.best10, (0.9 + 0.8) / 2, 1e-12);
  EXPECT_NEAR(s.loss, 5.0, 1e-12);
  EXPECT_NEAR(s.f1_remap, 0.75, 1e-12);
}

TEST(Summarize, ClientsWithoutSamplesDoNotCount) {
  const std::vector<ClientMetrics> clients{{4, 3, 1, 1, 1, 1}, class_metrics({}, {}, 3)};
  EXPECT_DOUBLE_EQ(summarize(clients).mean, 0.75);
  EXPECT_DOUBLE_EQ(summarize(clients).loss, 1);
  EXPECT_TRUE(std::isnan(summarize(std::span(clients).last(1)).mean));
}

TEST(Measure, LossAndAccuracyOverBatches) {
  auto pool = std::make_shared<Pool>();
  pool->x = at::arange(600, at::kFloat).view({600, 1});
  pool->y = (at::arange(600, at::kLong) % 3).contiguous();
  pool->classes = 3;
  ClientData data;
  data.pool = pool;
  for (int64_t i = 0; i < 600; i += 2) data.test.push_back(i);  // 300: two batches
  // Always class 0 with logits (1, 0, 0): right for multiples of 6, i.e. a third.
  const auto m = measure(
      [](const Tensor& x) {
        return at::tensor({1.0F, 0.0F, 0.0F}).expand({x.size(0), 3});
      },
      data, Part::kTest, Loss::kCrossEntropy);
  EXPECT_EQ(m.n, 300);
  EXPECT_EQ(m.correct, 100);
  const double z = std::log(std::exp(1.0) + 2);
  EXPECT_NEAR(m.loss, z - 1.0 / 3, 1e-6);
}

}  // namespace
}  // namespace tessera

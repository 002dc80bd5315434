#include "eval/metrics.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/key.hpp"

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
  EXPECT_DOUBLE_EQ(m.balanced_accuracy, (2.0 / 3 + 1.0 / 2 + 0) / 3) << "recall of 0, 1 and 2";
  EXPECT_TRUE(std::isnan(m.auroc) && std::isnan(m.ece)) << "there are no scores";
}

TEST(Auroc, ByHand) {
  // Positives 0.9 and 0.4, negatives 0.4 and 0.1: three pairs are won, one is a tie.
  const std::vector<double> scores{0.9, 0.4, 0.4, 0.1};
  EXPECT_DOUBLE_EQ(auroc_of(scores, {true, false, true, false}), 3.5 / 4);
  EXPECT_DOUBLE_EQ(auroc_of(scores, {true, true, false, false}), 3.5 / 4);
  EXPECT_DOUBLE_EQ(auroc_of(scores, {false, false, true, true}), 0.5 / 4);
  EXPECT_TRUE(std::isnan(auroc_of(scores, {true, true, true, true})));
  EXPECT_TRUE(std::isnan(auroc_of(scores, {false, false, false, false})));
  EXPECT_TRUE(std::isnan(auroc_of(std::vector<double>{0.5, std::nan("")}, {true, false})));
  EXPECT_TRUE(std::isnan(auroc_of({}, {})));
}

TEST(Auroc, CountsPairs) {
  Rng rng(17);
  std::vector<double> scores;
  std::vector<bool> positive;
  for (int i = 0; i < 300; ++i) {
    positive.push_back(rng.below(3) == 0);
    // Few values: many ties.
    scores.push_back(static_cast<double>(rng.below(20) + (positive.back() ? 4 : 0)) / 30);
  }
  double won = 0, pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i)
    for (size_t j = 0; j < scores.size(); ++j) {
      if (!positive[i] || positive[j]) continue;
      won += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      ++pairs;
    }
  EXPECT_DOUBLE_EQ(auroc_of(scores, positive), won / pairs);
  EXPECT_GT(won / pairs, 0.6);
}

TEST(CalibrationError, ByHand) {
  // Bins of 1/15: 0.95 and 1.0 share the last one, 0.62 and 0.5 have their own.
  // |(1 − 0.95) + (1 − 1)| + |0 − 0.62| + |1 − 0.5| = 0.05 + 0.62 + 0.5
  EXPECT_NEAR(
      calibration_error(std::vector<double>{0.95, 0.62, 1.0, 0.5}, {true, false, true, true}),
      1.17 / 4, 1e-12);
  // In one bin right and wrong make up for each other.
  EXPECT_NEAR(calibration_error(std::vector<double>{0.5, 0.5}, {true, false}), 0, 1e-12);
  EXPECT_TRUE(std::isnan(calibration_error({}, {})));
  EXPECT_TRUE(std::isnan(calibration_error(std::vector<double>{std::nan("")}, {true})));
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

TEST(Summarize, MeansAreOverTheClientsThatHaveTheMetric) {
  const double none = std::nan("");
  const std::vector<ClientMetrics> clients{{4, 3, 1, 1, 1, 1, 0.5, 0.9, 0.1},
                                           {4, 2, 1, 1, 1, 1, 0.75, none, 0.2},
                                           {4, 2, 1, 1, 1, 1, 0.25, 0.7, 0.3},
                                           class_metrics({}, {}, 3)};
  const auto s = summarize(clients);
  EXPECT_DOUBLE_EQ(s.balanced_accuracy, 0.5);
  EXPECT_DOUBLE_EQ(s.auroc, 0.8) << "two of them";
  EXPECT_DOUBLE_EQ(s.ece, 0.2);
  EXPECT_DOUBLE_EQ(value_of(s, "auroc"), 0.8);
  EXPECT_DOUBLE_EQ(value_of(clients[1], "balanced_accuracy"), 0.75);
  EXPECT_DOUBLE_EQ(value_of(clients[1], "accuracy"), 0.5);
  EXPECT_TRUE(std::isnan(value_of(clients[3], "accuracy")));
  EXPECT_TRUE(std::isnan(summarize(std::span(clients).subspan(1, 1)).auroc));
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
  EXPECT_DOUBLE_EQ(m.balanced_accuracy, 1.0 / 3) << "all of class 0, none of the others";
  EXPECT_DOUBLE_EQ(m.auroc, 0.5) << "the same score for everybody";
  EXPECT_NEAR(m.ece, std::exp(1.0) / (std::exp(1.0) + 2) - 1.0 / 3, 1e-6);
}

/// Four samples of three classes, whose logits are the samples themselves.
ClientData four_samples() {
  auto pool = std::make_shared<Pool>();
  pool->x = at::tensor({2.0F, 0.0F, 0.0F, 0.0F, 1.0F, 0.0F, 1.0F, 0.5F, 0.0F, 0.0F, 3.0F, 0.0F})
                .view({4, 3});
  pool->y = at::tensor({0, 0, 1, 1}, at::kLong);
  pool->classes = 3;
  ClientData out;
  out.pool = pool, out.test = {0, 1, 2, 3};
  return out;
}

TEST(PredictPart, FourSamplesByHand) {
  const auto data = four_samples();
  const auto same = [](const Tensor& x) { return x; };
  const auto p = predict_part(same, data, Part::kTest, Loss::kCrossEntropy);
  EXPECT_EQ(p.predicted, (std::vector<int64_t>{0, 1, 0, 1}));
  EXPECT_EQ(p.truth, (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_NEAR(p.scores_of(0)[0], std::exp(2) / (std::exp(2) + 2), 1e-12);
  EXPECT_NEAR(p.scores_of(2)[1], std::exp(0.5) / (std::exp(1) + std::exp(0.5) + 1), 1e-7);
  EXPECT_EQ(confusion_of(p), (Confusion{3, {1, 1, 0, 1, 1, 0, 0, 0, 0}}));
  const auto m = metrics_of(p);
  EXPECT_DOUBLE_EQ(m.balanced_accuracy, 0.5);
  // Class 0 by its scores .787 .212 | .506 .045: 3 of 4 pairs; class 1 by .307 .909 | .107 .576:
  // 3 of 4. Class 2 never occurs and does not count.
  EXPECT_DOUBLE_EQ(m.auroc, 0.75);
  const auto share = [](double top, double other, double last) {
    return std::exp(top) / (std::exp(top) + std::exp(other) + std::exp(last));
  };
  // Confidences .787, .576, .506, .909 lie in four bins; the first and the last are hits.
  const double want =
      (1 - share(2, 0, 0)) + share(1, 0, 0) + share(1, 0.5, 0) + (1 - share(3, 0, 0));
  EXPECT_NEAR(m.ece, want / 4, 1e-7);
}

TEST(PredictPart, TheMultiLabelLossHasScoresOfEachClassApart) {
  const auto data = four_samples();
  const auto p =
      predict_part([](const Tensor& x) { return x; }, data, Part::kTest, Loss::kMultiLabel);
  EXPECT_NEAR(p.scores_of(0)[0], 1 / (1 + std::exp(-2.0)), 1e-12);
  EXPECT_NEAR(p.scores_of(0)[1], 0.5, 1e-12);
}

TEST(PredictPart, LogitsThatAreNotNumbersDoNoHarm) {
  const auto data = four_samples();
  const auto m = measure([](const Tensor& x) { return x * std::nanf(""); }, data, Part::kTest,
                         Loss::kCrossEntropy);
  EXPECT_EQ(m.n, 4);
  EXPECT_TRUE(std::isnan(m.loss) && std::isnan(m.auroc) && std::isnan(m.ece));
  const auto none =
      measure([](const Tensor& x) { return x; }, data, Part::kVal, Loss::kCrossEntropy);
  EXPECT_EQ(none.n, 0);
  EXPECT_TRUE(std::isnan(none.auroc) && std::isnan(none.balanced_accuracy));
}

}  // namespace
}  // namespace tessera

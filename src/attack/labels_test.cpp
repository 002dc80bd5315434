#include "attack/labels.hpp"

#include "attack/testing.hpp"

namespace tessera {
namespace {

using testing::gradient;
using testing::kDigits;
using testing::made;

TEST(Labels, TheNegativeEntryIsTheLabel) {
  EXPECT_EQ(label_by_sign(at::tensor({0.2, 0.3, -0.5}, at::kFloat)), 2);
  EXPECT_FALSE(label_by_sign(at::tensor({-0.2, 0.7, -0.5}, at::kFloat)));
  EXPECT_FALSE(label_by_sign(at::tensor({0.2, 0.3, 0.5}, at::kFloat)));
  const auto rows = at::tensor({0.2, 0.1, -1.0, -0.5, 0.0, 0.4}, at::kFloat).view({3, 2});
  EXPECT_EQ(label_by_rows(rows), 1);
  EXPECT_EQ(label_by_rows(-rows, -1), 1);
}

TEST(Labels, SingleSamplesOfNetworks) {
  for (const auto* name : {"mlp100", "lenet", "lenet-smooth"}) {
    const auto model = made(name, kDigits);
    const auto head = *linear_head(model->layout());
    for (int64_t label = 0; label < 10; ++label) {
      const Examples one{
          testing::batch(kDigits, 1, 50 + static_cast<uint64_t>(label)).to(at::kFloat),
          at::full({1}, label, at::kLong)};
      const auto g = gradient(*model, model->init(2), one);
      EXPECT_EQ(label_by_sign(head_bias_gradient(head, g)), label) << name;
      EXPECT_EQ(label_by_rows(head_weight_gradient(head, g)), label) << name;
    }
  }
}

// Shares of two classes make two entries negative: the rule has no answer, and says so.
TEST(Labels, SoftLabelsHaveNoAnswer) {
  const auto p = at::softmax(at::tensor({0.1, 0.0, -0.1, 0.2}, at::kDouble), 0);
  const auto soft = at::tensor({0.0, 0.6, 0.4, 0.0}, at::kDouble);
  EXPECT_FALSE(label_by_sign(p - soft));
}

TEST(Labels, CountsByHand) {
  // Four samples, labels 0 0 2 1, the same probabilities for all: the estimate is exact.
  const auto p = at::tensor({0.5, 0.3, 0.2}, at::kDouble);
  const auto slope = p - at::tensor({0.5, 0.25, 0.25}, at::kDouble);
  const auto counts = estimated_counts(slope, p, 4);
  EXPECT_NEAR(counts[0], 2, 1e-12);
  EXPECT_NEAR(counts[1], 1, 1e-12);
  EXPECT_EQ(whole_counts({1.9, 1.2, 0.9}, 4), (std::vector<int64_t>{2, 1, 1}));
  EXPECT_EQ(whole_counts({-0.5, 1.4, 1.3}, 3), (std::vector<int64_t>{0, 2, 1}));
  EXPECT_EQ(whole_counts({0.0, 0.0}, 3), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(whole_counts({2.9, 2.1, 0.0}, 3), (std::vector<int64_t>{2, 1, 0}));
  EXPECT_EQ(labels_of_counts({2, 0, 1}), (std::vector<int64_t>{0, 0, 2}));
}

TEST(Labels, ScoresByHand) {
  const auto truth = at::tensor({0, 0, 1, 2}, at::kLong);
  const auto right = score_labels({2, 1, 1}, truth), off = score_labels({1, 1, 2}, truth);
  EXPECT_EQ(right.accuracy, 1);
  EXPECT_EQ(right.l1, 0);
  EXPECT_EQ(off.accuracy, 0.75);
  EXPECT_EQ(off.l1, 2);
}

TEST(Labels, CountsOfARealBatch) {
  TESSERA_NEED_SET("mnist");
  const auto model = made("lenet", kDigits);
  const auto head = *linear_head(model->layout());
  const auto at = model->init(4);
  double right = 0, blind = 0;
  constexpr int64_t kBatch = 16;
  for (int64_t i = 0; i < 8; ++i) {
    const auto batch = testing::digits(kBatch, kBatch * i);
    const auto pbar = mean_probabilities(*model, at, {1, 28, 28}, 64, 3);
    EXPECT_NEAR(pbar.sum().item<double>(), 1, 1e-9);
    const auto counts = whole_counts(
        estimated_counts(head_bias_gradient(head, gradient(*model, at, batch)), pbar, kBatch),
        kBatch);
    right += score_labels(counts, batch.y).accuracy / 8;
    const std::vector<double> even(10, kBatch / 10.0);
    blind += score_labels(whole_counts(even, kBatch), batch.y).accuracy / 8;
  }
  // Noise is all the attacker has to guess probabilities from.
  EXPECT_GT(right, 0.85);
  EXPECT_GT(right, blind + 0.1);
  RecordProperty("label_accuracy", fmt::format("{:.3f}", right));
}

}  // namespace
}  // namespace tessera

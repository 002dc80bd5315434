#include "model/model.hpp"

#include <c10/core/InferenceMode.h>

#include <cmath>

#include "model/test_data.hpp"

namespace tessera {
namespace {

double logistic(double s) { return std::log1p(std::exp(-s)); }

TEST(LossValue, CrossEntropyByHand) {
  const Tensor logits = at::tensor({1.0, 2.0, 0.5, 0.0, -1.0, 3.0}, at::kDouble).view({2, 3});
  const Tensor y = at::tensor({1, 0}, at::kLong);
  const double first = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(0.5)) - 2.0;
  const double second = std::log(1.0 + std::exp(-1.0) + std::exp(3.0));
  EXPECT_NEAR(loss_value(Loss::kCrossEntropy, logits, y).item<double>(), (first + second) / 2,
              1e-14);
}

TEST(LossValue, MultiLabelIsTheMeanOfLogisticLosses) {
  const Tensor logits = at::tensor({1.0, 2.0, 0.5, 0.0, -1.0, 3.0}, at::kDouble).view({2, 3});
  const Tensor y = at::tensor({1, 0}, at::kLong);
  const double sum = logistic(-1.0) + logistic(2.0) + logistic(-0.5) + logistic(0.0) +
                     logistic(1.0) + logistic(-3.0);
  EXPECT_NEAR(loss_value(Loss::kMultiLabel, logits, y).item<double>(), sum / 6, 1e-14);
}

TEST(LossValue, MultiLabelStaysFiniteForLargeScores) {
  const Tensor logits = at::tensor({1000.0, -1000.0}, at::kDouble).view({1, 2});
  EXPECT_EQ(loss_value(Loss::kMultiLabel, logits, at::tensor({0}, at::kLong)).item<double>(), 0.0);
  EXPECT_EQ(loss_value(Loss::kMultiLabel, logits, at::tensor({1}, at::kLong)).item<double>(),
            1000.0);
}

TEST(Predict, WorksInInferenceModeAndUsesRunningStatistics) {
  const Shape shape{{1, 16, 16}, 4};
  const auto model = testing::made("lenet16-bn", shape);
  Weights at = testing::moved(*model, 6);
  at.b = at.b + testing::normal({at.b.numel()}, 7).abs();
  const Tensor x = testing::batch(shape, 3, 8);
  const Tensor outside = model->predict(at, x);
  const c10::InferenceMode guard;
  EXPECT_TRUE(at::equal(model->predict(at, x), outside));
  // One at a time gives the same: nothing comes from the batch.
  EXPECT_TRUE(at::allclose(model->predict(at, x.narrow(0, 1, 1)), outside.narrow(0, 1, 1)));
}

}  // namespace
}  // namespace tessera

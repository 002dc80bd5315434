// Losses in which classes have weights: values by another formula, derivatives by differences.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "model/fast/losses.hpp"
#include "model/second_order.hpp"
#include "model/test_data.hpp"

namespace tessera {
namespace {

using torch::autograd::grad;

const std::vector<float> kWeights{0.25F, 2.0F, 0.0F, 1.5F, 1.0F};
constexpr int64_t kClasses = 5, kSamples = 7;

Loss weighted(Loss loss) {
  loss.weights = std::make_shared<const std::vector<float>>(kWeights);
  return loss;
}

// Written out sample by sample.
double by_formula(Loss::Kind kind, const Tensor& logits, const Tensor& y) {
  double sum = 0;
  for (int64_t i = 0; i < logits.size(0); ++i) {
    const auto label = y[i].item<int64_t>();
    double total = 0, one = 0;
    for (int64_t k = 0; k < kClasses; ++k) {
      const double z = logits[i][k].item<double>();
      total += std::exp(z);
      one += std::log(1 + std::exp(k == label ? -z : z)) / kClasses;
    }
    if (kind == Loss::Kind::kCrossEntropy) one = std::log(total) - logits[i][label].item<double>();
    sum += static_cast<double>(kWeights[static_cast<size_t>(label)]) * one;
  }
  return sum / static_cast<double>(logits.size(0));
}

class WeightedLoss : public ::testing::TestWithParam<Loss::Kind> {
 protected:
  const Loss loss_ = weighted({GetParam()});
  const Tensor logits_ = testing::normal({kSamples, kClasses}, 3);
  const Tensor y_ = testing::labels(kSamples, kClasses, 8);

  Tensor slope_by_differences() const {
    constexpr double kStep = 1e-5;
    auto out = at::empty_like(logits_);
    for (int64_t i = 0; i < logits_.numel(); ++i) {
      auto above = logits_.clone(), below = logits_.clone();
      above.view(-1)[i] += kStep, below.view(-1)[i] -= kStep;
      out.view(-1)[i] =
          (by_formula(GetParam(), above, y_) - by_formula(GetParam(), below, y_)) / (2 * kStep);
    }
    return out;
  }
};

TEST_P(WeightedLoss, IsTheSumOfWeightedLossesOverTheNumberOfSamples) {
  EXPECT_NEAR(loss_value(loss_, logits_, y_).item<double>(), by_formula(GetParam(), logits_, y_),
              1e-12);
  auto floats = logits_.to(at::kFloat).contiguous();
  EXPECT_NEAR(fast::loss_and_grad(loss_, kSamples, kClasses, y_.data_ptr<int64_t>(),
                                  floats.data_ptr<float>()),
              by_formula(GetParam(), logits_, y_), 1e-6);
}

TEST_P(WeightedLoss, GradientsMatchDifferences) {
  const auto want = slope_by_differences();
  EXPECT_GT(want.norm().item<double>(), 0.01);
  const auto leaf = logits_.clone().requires_grad_();
  const auto exact = grad({loss_value(loss_, leaf, y_)}, {leaf})[0];
  EXPECT_LT((exact - want).abs().max().item<double>(), 1e-9);
  auto floats = logits_.to(at::kFloat).contiguous();
  fast::loss_and_grad(loss_, kSamples, kClasses, y_.data_ptr<int64_t>(), floats.data_ptr<float>());
  EXPECT_LT((floats - want).abs().max().item<double>(), 1e-6);
}

TEST_P(WeightedLoss, ChangesOfTheGradientMatchDifferences) {
  constexpr double kStep = 1e-5;
  const auto along = testing::normal({kSamples, kClasses}, 4);
  const auto slope = [&](double step) {
    const auto leaf = (logits_ + step * along).requires_grad_();
    return grad({loss_value(loss_, leaf, y_)}, {leaf})[0];
  };
  const auto want = (slope(kStep) - slope(-kStep)) / (2 * kStep);
  const auto at = logits_.to(at::kFloat).contiguous();
  auto change = along.to(at::kFloat).contiguous();
  fast::loss_grad_along(loss_, kSamples, kClasses, y_.data_ptr<int64_t>(), at.data_ptr<float>(),
                        change.data_ptr<float>());
  EXPECT_LT((change - want).abs().max().item<double>(), 1e-6);
  const auto wrong = at::full_like(y_, kClasses);
  EXPECT_THROW(fast::loss_grad_along(loss_, kSamples, kClasses, wrong.data_ptr<int64_t>(),
                                     at.data_ptr<float>(), change.data_ptr<float>()),
               std::out_of_range);
}

TEST_P(WeightedLoss, WeightsOfOneChangeNoBit) {
  auto ones = loss_;
  ones.weights = std::make_shared<const std::vector<float>>(kClasses, 1.0F);
  auto a = logits_.to(at::kFloat).contiguous(), b = a.clone();
  const auto* y = y_.data_ptr<int64_t>();
  EXPECT_EQ(fast::loss_and_grad(ones, kSamples, kClasses, y, a.data_ptr<float>()),
            fast::loss_and_grad({GetParam()}, kSamples, kClasses, y, b.data_ptr<float>()));
  EXPECT_TRUE(a.equal(b));
}

// Every hand-written network, and the product with its Hessian where it has one.
TEST_P(WeightedLoss, NetworksFollow) {
  const std::vector<std::pair<const char*, Shape>> cases{{"mlp100", {{6}, kClasses}},
                                                         {"lenet", {{1, 28, 28}, kClasses}},
                                                         {"gru64", {{6, 22}, kClasses}},
                                                         {"vit-s28", {{1, 28, 28}, kClasses}}};
  for (const auto& [name, shape] : cases) {
    SCOPED_TRACE(name);
    const auto model = testing::made(name, shape);
    const auto exact = testing::moved(*model, 1);
    const Weights at{exact.w.to(at::kFloat), exact.b.to(at::kFloat)};
    const auto x = testing::batch(shape, kSamples, 2);
    auto got = at::full_like(at.w, NAN);
    double value = 0;
    ASSERT_TRUE(model->value_and_grad(at, x.to(at::kFloat), y_, loss_, got, value));
    const auto leaf = exact.w.clone().requires_grad_();
    const auto mean = loss_value(loss_, model->forward({leaf, exact.b}, x, {}).logits, y_);
    const auto slope = grad({mean}, {leaf}, {}, true, true)[0];
    EXPECT_NEAR(value, mean.item<double>(), 1e-5);
    EXPECT_LT((got - slope.detach()).norm().item<double>(), 1e-5 * slope.norm().item<double>());
    const auto* curved = dynamic_cast<const SecondOrder*>(model.get());
    const auto v = testing::normal({model->layout().numel()}, 9);
    if (!curved || !curved->hessian_times(at, x.to(at::kFloat), y_, loss_, v.to(at::kFloat), got))
      continue;
    const auto product = grad({slope}, {leaf}, {v})[0];
    EXPECT_LT((got - product).norm().item<double>(), 1e-4 * product.norm().item<double>());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, WeightedLoss,
                         ::testing::Values(Loss::Kind::kCrossEntropy, Loss::Kind::kMultiLabel));

}  // namespace
}  // namespace tessera

#include "attack/model_inversion.hpp"

#include "attack/testing.hpp"

namespace tessera {
namespace {

using testing::kDigits;
using testing::made;

// A linear model of one pixel: class 1 wins by 8 x, so the objective is log σ(±8x) − norm x².
TEST(ModelInversion, ALinearModelByHand) {
  ModelOptions linear;
  linear.name = "mlp", linear.hidden = {};
  const auto model = *make_model(linear, {{1, 1, 1}, 2});
  const Weights at{at::tensor({-4.0, 4.0, 0.0, 0.0}, at::kFloat), at::empty({0})};
  const auto labels = at::tensor({0, 1}, at::kLong);
  ModelInversionOptions options;
  options.norm = 0.5;
  const auto got = invert_model({*model, at, {1, 1, 1}, {}}, labels, options, 1).flatten();
  EXPECT_NEAR(got[0].item<double>(), 0, 1e-4);  // class 0 wants less than black
  // Class 1: the slope 8 σ(−8x) − x is 0.
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double x = (low + high) / 2;
    (8 * testing::sigmoid(-8 * x) > x ? low : high) = x;
  }
  EXPECT_NEAR(got[1].item<double>(), low, 2e-3);
}

TEST(ModelInversion, ScoresByHand) {
  ModelOptions linear;
  linear.name = "mlp", linear.hidden = {};
  const auto model = *make_model(linear, {{1, 7, 7}, 2});
  // Class 1 where the pixels sum to more than 24.5.
  auto w = at::zeros({100});
  w.narrow(0, 49, 49).fill_(1);
  w[99] = -24.5;
  const auto flat = [](double value) { return at::full({1, 7, 7}, value, at::kFloat); };
  const Examples training{at::stack({flat(0.2), flat(0.4), flat(1.0)}),
                          at::tensor({0, 0, 1}, at::kLong)};
  const Examples found{at::stack({flat(0.3), flat(0.4)}), at::tensor({0, 1}, at::kLong)};
  const auto got = score_model_inversion(found, {*model, {w, at::empty({0})}, {1, 7, 7}, {}},
                                         training, {7, 1.5});
  EXPECT_EQ(got.evaluator_accuracy, 0.5);
  EXPECT_NEAR(got.nearest, (0.1 + 0) / 2, 1e-6);
  const double far = (2 * 0.4 * 1 + 1e-4) / (0.16 + 1 + 1e-4);
  EXPECT_NEAR(got.mean_ssim, (1 + far) / 2, 1e-5);
}

// Pictures that a trained model is surest of are taken for the same digits by another one.
TEST(ModelInversion, AnotherModelRecognisesTheDigits) {
  TESSERA_NEED_SET("mnist");
  const auto model = made("mlp100", kDigits);
  const auto trained = [&](int64_t begin, uint64_t key) {
    const auto own = testing::digits(2000, begin);
    ClientData data;
    data.pool = std::make_shared<Pool>(Pool{own.x, own.y, 10});
    for (int64_t i = 0; i < 2000; ++i) data.train.push_back(i);
    TrainOptions options;
    options.epochs = 4, options.lr = 0.1, options.loss = "ce";
    return local_sgd(model->init(key), {*model, data, 1, key}, options).weights;
  };
  const InvertedModel target{*model, trained(0, 1), {1, 28, 28}, {}};
  const InvertedModel evaluator{*model, trained(2000, 2), {1, 28, 28}, {}};
  const auto labels = at::arange(10, at::kLong);
  ModelInversionOptions options;
  options.steps = 300;
  const auto pictures = invert_model(target, labels, options, 5);
  EXPECT_GE(pictures.min().item<double>(), 0);
  EXPECT_LE(pictures.max().item<double>(), 1);
  const auto training = testing::digits(500);
  const auto got = score_model_inversion({pictures, labels}, evaluator, training);
  const auto noise = gaussian_noise({10, 1, 28, 28}, 5).clamp(0, 1);
  const auto blind = score_model_inversion({noise, labels}, evaluator, training);
  EXPECT_GE(got.evaluator_accuracy, 0.8);
  EXPECT_LE(blind.evaluator_accuracy, 0.3);
  EXPECT_GT(got.mean_ssim, blind.mean_ssim);
  EXPECT_LT(got.nearest, blind.nearest);
  RecordProperty("found",
                 fmt::format("accuracy {}, SSIM {:.3f} (noise {:.3f}), nearest {:.3f} ({:.3f})",
                             got.evaluator_accuracy, got.mean_ssim, blind.mean_ssim, got.nearest,
                             blind.nearest));
}

}  // namespace
}  // namespace tessera

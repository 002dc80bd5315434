#include "train/transform.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "model/test_data.hpp"
#include "train/virtual_steps.hpp"

namespace tessera {
namespace {

const Shape kPictures{{1, 5, 5}, 4};
const PixelScale kScale{{0.4}, {0.3}};

/// Smooth, so that gradients of gradients say something everywhere.
std::unique_ptr<Model> smooth_net() {
  ModelOptions options;
  options.name = "mlp", options.hidden = {16}, options.activation = "tanh";
  return std::move(*make_model(options, kPictures));
}

ClientData picture_data(int64_t n) {
  auto pool = std::make_shared<Pool>();
  const auto pixels = testing::normal({n, 1, 5, 5}, 11).mul(0.2).add(0.5).clamp(0, 1);
  pool->x = kScale.to_inputs(pixels.to(at::kFloat)).contiguous();
  pool->y = testing::labels(n, 4, 12);
  pool->classes = 4;
  pool->pixel_mean = kScale.mean, pool->pixel_std = kScale.std;
  ClientData out;
  out.name = "pictures", out.pool = pool;
  for (int64_t i = 0; i < n; ++i) out.train.push_back(i);
  return out;
}

// By hand: −Σ y log softmax, so that nothing of the subject is trusted.
Tensor gradient_by_hand(const Model& model, const Weights& at, const Tensor& x, const Tensor& y) {
  const auto w = at.w.to(at::kDouble).detach().requires_grad_(true);
  const auto logits = model.forward({w, at.b.to(at::kDouble)}, x.to(at::kDouble), Pass{}).logits;
  const auto loss = -(y.to(at::kDouble) * at::log_softmax(logits, 1)).sum() / x.size(0);
  return torch::autograd::grad({loss}, {w})[0];
}

class Transformed : public ::testing::Test {
 protected:
  const std::unique_ptr<Model> model_ = smooth_net();
  const Weights at_ = model_->init(3);
  const ClientData data_ = picture_data(8);
  const Examples batch_ = data_.range(Part::kTrain, 0, 8);
  Virtual made(int64_t iterations, uint64_t key = 5) const {
    TransformOptions options;
    options.iterations = iterations;
    return transformed(*model_, at_, batch_, kScale, options, key);
  }
};

// 16 samples: with 8 the head's gradient, which holds how often each class is there, leaves too
// little room for labels that are all wrong.
TEST_F(Transformed, IsFarInPixelsWrongInLabelsAndNearInGradients) {
  const auto batch = picture_data(16).range(Part::kTrain, 0, 16);
  TransformOptions options;
  options.label_weight = 2;
  const auto out = transformed(*model_, at_, batch, kScale, options, 5);
  EXPECT_LT(out.objective, 0.05 * out.at_start);
  const auto pixels = kScale.to_pixels(out.x);
  EXPECT_GE(pixels.min().item<double>(), -1e-6);
  EXPECT_LE(pixels.max().item<double>(), 1 + 1e-6);
  const auto moved = (pixels - kScale.to_pixels(batch.x)).flatten(1).norm(2, 1) / 5;
  EXPECT_NEAR(out.pixel_distance, moved.mean().item<double>(), 1e-5);
  EXPECT_GE(moved.min().item<double>(), 0.3 - 0.01);
  EXPECT_NEAR(out.y.sum().item<double>(), 16, 1e-5);
  EXPECT_FALSE((out.y.argmax(1) == batch.y).any().item<bool>()) << "no label by the largest share";
  EXPECT_LT(out.label_term, 0.05);
  const auto truth = gradient_by_hand(*model_, at_, batch.x, at::one_hot(batch.y, 4));
  const auto own = gradient_by_hand(*model_, at_, out.x, out.y);
  const double relative = ((own - truth).norm() / truth.norm()).item<double>();
  EXPECT_NEAR(relative, out.gradient_distance, 1e-4);
  EXPECT_LT(relative, 0.12);
}

TEST_F(Transformed, FollowsFromTheKey) {
  const auto a = made(20), b = made(20), c = made(20, 6);
  EXPECT_TRUE(at::equal(a.x, b.x) && at::equal(a.y, b.y));
  EXPECT_FALSE(at::equal(a.x, c.x));
  EXPECT_LE(made(40).objective, a.objective);
}

// The bound's premise is a linear first layer, which this network has; another has none.
TEST_F(Transformed, TheBoundOfEquation6Holds) {
  for (const int64_t iterations : {0, 30, 300}) {
    const auto out = made(iterations);
    ASSERT_TRUE(out.bound);
    EXPECT_LE(out.bound->least, out.bound->real);
    EXPECT_NEAR(out.bound->real, (out.x - batch_.x).norm().item<double>(), 1e-4);
  }
  const auto lenet = testing::made("lenet-smooth", {{1, 28, 28}, 4});
  const Examples large{testing::normal({4, 1, 28, 28}, 1).to(at::kFloat), testing::labels(4, 4, 2)};
  TransformOptions options;
  options.iterations = 1;
  EXPECT_FALSE(transformed(*lenet, lenet->init(1), large, kScale, options, 1).bound);
}

// One linear layer, samples in a ball of 1: everything in eq. (6) can be written down.
TEST(TransformBound, IsEquation6) {
  ModelOptions network;
  network.name = "mlp", network.hidden = {};
  const std::shared_ptr<Model> model = std::move(*make_model(network, kPictures));
  const Weights at = model->init(1);
  TransformOptions options;
  options.iterations = 40;
  const Examples batch{testing::normal({4, 1, 5, 5}, 1).mul(0.05).to(at::kFloat),
                       testing::labels(4, 4, 2)};
  const auto out = transformed(*model, at, batch, {}, options, 1);
  const auto weight = at.w.to(at::kDouble).narrow(0, 0, 100).view({4, 25});
  const auto bias = at.w.to(at::kDouble).narrow(0, 100, 4);
  const auto deltas = [&](const Tensor& x, const Tensor& y) {
    return (at::softmax(x.matmul(weight.t()) + bias, 1) - y.to(at::kDouble)) / 4;
  };
  const auto x = batch.x.to(at::kDouble).flatten(1), moved = out.x.to(at::kDouble).flatten(1);
  ASSERT_LE(x.norm().item<double>(), 1 + 1e-9) << "the premise";
  const auto before = deltas(x, at::one_hot(batch.y, 4)), after = deltas(moved, out.y);
  const auto norm = [](const Tensor& t) { return t.norm().item<double>(); };
  const double apart = norm(after - before), most = std::max(norm(before), norm(after));
  const double weights = norm(after.t().mm(moved) - before.t().mm(x));
  ASSERT_TRUE(out.bound);
  EXPECT_NEAR(out.bound->least, 2 * (weights - norm(x) * apart) / (2 * most + apart), 1e-4);
  EXPECT_LE(out.bound->least, out.bound->real);
}

TEST_F(Transformed, FewerThanFourAreRefused) {
  EXPECT_THROW(transformed(*model_, at_, data_.range(Part::kTrain, 0, 3), kScale, {}, 1),
               std::invalid_argument);
}

TrainOptions virtual_options(VirtualTraining::When when, int64_t iterations) {
  VirtualTraining training;
  training.when = when, training.options.iterations = iterations, training.initial = 3;
  TrainOptions out;
  out.batch = 8, out.loss = "ce", out.lr = 0.1;
  out.transform = std::make_shared<const VirtualTraining>(training);
  return out;
}

// 22 samples in batches of 8: the last one, of 6, is a group; with 17 the last one, of 1, is not.
TEST_F(Transformed, TrainsOnVirtualSamplesAndSaysHowNearTheyAre) {
  using When = VirtualTraining::When;
  for (const auto when : {When::kRound, When::kStep, When::kOnce}) {
    for (const int64_t n : {22, 17}) {
      const auto data = picture_data(n);
      const Site site{*model_, data, 1, 9};
      const auto options = virtual_options(when, 5);
      const auto a = local_sgd(at_, site, options);
      EXPECT_EQ(a.steps, 3);
      EXPECT_TRUE(at::isfinite(a.weights.w).all().item<bool>());
      const auto totals = options.transform->log->totals();
      ASSERT_TRUE(totals);
      EXPECT_EQ(totals->batches, when == When::kStep ? 3 : 2);
      EXPECT_GT(totals->gradient_distance, 0);
      EXPECT_LE(totals->gradient_distance, totals->worst_gradient_distance);
      EXPECT_GT(totals->pixel_distance, 0.1);
      const auto b = local_sgd(at_, site, virtual_options(when, 5));
      EXPECT_TRUE(at::equal(a.weights.w, b.weights.w)) << "a function of the key";
      auto plain = options;
      plain.transform.reset();
      EXPECT_FALSE(at::equal(a.weights.w, local_sgd(at_, site, plain).weights.w));
    }
  }
}

// At the model where they were made, a step along virtual samples is a step along the true ones.
TEST_F(Transformed, OneStepIsNearlyTheTrueOne) {
  const Site site{*model_, data_, 1, 9};
  auto options = virtual_options(VirtualTraining::When::kRound, 300);
  const Job one{.max_steps = 1};
  const auto moved = local_sgd(at_, site, options, one).weights.w - at_.w;
  options.transform.reset();
  const auto truth = local_sgd(at_, site, options, one).weights.w - at_.w;
  EXPECT_LT(testing::distance(moved, truth), 0.2);
}

TEST_F(Transformed, OnceIsOnce) {
  const auto options = virtual_options(VirtualTraining::When::kOnce, 3);
  const auto data = picture_data(8);
  local_sgd(at_, {*model_, data, 1, 9}, options);
  local_sgd(at_, {*model_, data, 2, 10}, options);
  EXPECT_EQ(options.transform->log->totals()->batches, 1);
}

TEST_F(Transformed, WhatCannotBeTransformedIsRefused) {
  const auto options = virtual_options(VirtualTraining::When::kRound, 1);
  const auto few = picture_data(3);
  EXPECT_THROW(local_sgd(at_, {*model_, few, 1, 9}, options), std::invalid_argument);
  auto strange = picture_data(8);
  auto pool = std::make_shared<Pool>(*strange.pool);
  pool->pixel_mean.clear();
  strange.pool = pool;
  EXPECT_THROW(local_sgd(at_, {*model_, strange, 1, 9}, options), std::invalid_argument);
}

}  // namespace
}  // namespace tessera

#include "train/sample_privacy.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/key.hpp"
#include "model/test_data.hpp"
#include "train/optimizer.hpp"

namespace tessera {
namespace {

const Shape kShape{{4}, 3};

ClientData make_private_data(int64_t n) {
  auto pool = std::make_shared<Pool>();
  pool->x = testing::normal({n, 4}, 1).to(at::kFloat);
  // The second number is the sample's own, for who wants to know whom a step met.
  for (int64_t i = 0; i < n; ++i) pool->x[i][1] = static_cast<float>(i);
  pool->y = testing::labels(n, 3, 2);
  pool->classes = 3;
  ClientData out;
  for (int64_t i = 0; i < n; ++i) out.train.push_back(i);
  out.pool = pool;
  return out;
}

/// A network that writes down which samples it was shown.
class Watched final : public Model {
 public:
  const Layout& layout() const override { return net_->layout(); }
  const Layout& buffers() const override { return net_->buffers(); }
  Weights init(uint64_t key) const override { return net_->init(key); }
  Output forward(const Weights&, const Tensor&, const Pass&) const override {
    throw std::logic_error("a gradient that nobody clips");
  }
  bool clipped_gradient(const Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                        const Clip& clip, Tensor& grad, std::vector<double>& norms,
                        double& value) const override {
    batches.emplace_back();
    for (int64_t i = 0; i < x.size(0); ++i)
      batches.back().push_back(std::lround(x[i][1].item<double>()));
    counts.push_back(clip.count);
    return net_->clipped_gradient(at, x, y, loss, clip, grad, norms, value);
  }
  std::string no_clipping() const override { return ""; }

  mutable std::vector<std::vector<int64_t>> batches;
  mutable std::vector<double> counts;

 private:
  std::unique_ptr<Model> net_ = testing::made("mlp100", kShape);
};

TrainOptions private_options(double bound, double sigma, int64_t batch = 8) {
  TrainOptions out;
  out.batch = batch, out.loss = "ce", out.epochs = 2, out.momentum = 0.9;
  out.privacy = SamplePrivacy{bound, sigma};
  return out;
}

TEST(PrivateSteps, WithoutNoiseAndClippingNoBitChanges) {
  const auto data = make_private_data(21);  // the last batch is smaller
  const auto model = testing::made("mlp100", kShape);
  const Site site{*model, data, 1, 9};
  auto plain = private_options(1e9, 0);
  plain.privacy.reset();
  const auto a = local_sgd(model->init(3), site, plain),
             b = local_sgd(model->init(3), site, private_options(1e9, 0));
  EXPECT_TRUE(at::equal(a.weights.w, b.weights.w));
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.steps, b.steps);
  const auto c = local_sgd(model->init(3), site, private_options(0.01, 0));
  EXPECT_FALSE(at::equal(a.weights.w, c.weights.w));
}

// One step without momentum: the difference of two runs that differ in sigma alone is the noise.
TEST(PrivateSteps, AStepIsTheClippedSumAndTheNoise) {
  const auto data = make_private_data(30);
  const Watched model;
  const Site site{model, data, 1, 9};
  auto options = private_options(0.5, 0.8, 10);
  options.momentum = 0, options.lr = 1;
  const auto start = model.init(3);
  const Job one{.max_steps = 1};
  const auto step = [&](double sigma) {
    options.privacy->sigma = sigma;
    return Tensor(start.w - local_sgd(start, site, options, one).weights.w);
  };
  const auto loud = step(0.8), quiet = step(1e-12);
  ASSERT_EQ(model.batches.size(), 2U);
  EXPECT_EQ(model.batches[0], model.batches[1]) << "who is drawn does not depend on the noise";
  EXPECT_EQ(model.counts[0], 10) << "the denominator is the batch, however many were drawn";
  // By hand: the sum over the drawn samples, one by one, over 10.
  auto sum = at::zeros_like(start.w);
  for (const auto i : model.batches[0]) {
    const auto batch = data.take(Part::kTrain, std::vector<int64_t>{i});
    auto g = at::empty_like(start.w);
    std::vector<double> norms;
    double value = 0;
    ASSERT_TRUE(model.clipped_gradient(start, batch.x, batch.y, Loss::kCrossEntropy, {1e9, 1}, g,
                                       norms, value));
    sum += g * std::min(1.0, 0.5 / g.norm().item<double>()) / 10;
  }
  EXPECT_LT(testing::distance(quiet, sum), 1e-5);
  const auto noise = (loud - quiet).to(at::kDouble);
  const auto d = static_cast<double>(noise.numel());
  const double deviation = 0.8 * 0.5 / 10;
  EXPECT_NEAR(noise.mean().item<double>(), 0, 5 * deviation / std::sqrt(d));
  EXPECT_NEAR(noise.square().mean().item<double>(), deviation * deviation,
              5 * deviation * deviation * std::sqrt(2 / d));
}

// 400 steps: each of 20 samples is in a quarter of them, and pairs meet as independent ones do.
TEST(PrivateSteps, SamplesAreDrawnOneByOne) {
  const auto data = make_private_data(20);
  const Watched model;
  auto options = private_options(1, 1, 5);
  options.epochs = 100;
  const auto trained = local_sgd(model.init(3), {model, data, 1, 9}, options);
  EXPECT_EQ(trained.steps, 400);
  EXPECT_TRUE(std::isnan(trained.loss)) << "a loss would tell what the noise hides";
  std::vector<double> times(20, 0);
  double pairs = 0;
  std::set<size_t> sizes;
  for (const auto& batch : model.batches) {
    EXPECT_TRUE(std::is_sorted(batch.begin(), batch.end()));
    sizes.insert(batch.size());
    for (const auto i : batch) times[static_cast<size_t>(i)] += 1;
    const auto has = [&](int64_t i) { return std::find(batch.begin(), batch.end(), i); };
    pairs += has(3) != batch.end() && has(7) != batch.end() ? 1 : 0;
  }
  EXPECT_GT(sizes.size(), 5U);
  for (const double n : times) EXPECT_NEAR(n, 100, 5 * std::sqrt(400 * 0.25 * 0.75));
  EXPECT_NEAR(pairs, 25, 5 * std::sqrt(400.0 / 16 * 15 / 16));
}

TEST(PrivateSteps, AStepThatDrawsNobodyIsNoise) {
  const auto data = make_private_data(40);
  const Watched model;
  auto options = private_options(1, 1, 1);
  const auto trained = local_sgd(model.init(3), {model, data, 1, 9}, options);
  EXPECT_EQ(trained.steps, 80);
  EXPECT_LT(model.batches.size(), 80U);
  EXPECT_TRUE(at::isfinite(trained.weights.w).all().item<bool>());
}

TEST(PrivateSteps, ABatchOfEverybodyIsOfAsManyAsThereAre) {
  const auto data = make_private_data(6);
  const Watched model;
  local_sgd(model.init(3), {model, data, 1, 9}, private_options(1, 1, 32));
  for (const auto& batch : model.batches) EXPECT_EQ(batch.size(), 6U);
  EXPECT_EQ(model.counts.front(), 6);
}

TEST(PrivateSteps, TheSystemsDrawsAreNobodysAndTheKeysAreTheKeys) {
  const auto data = make_private_data(20);
  const auto model = testing::made("mlp100", kShape);
  const Site site{*model, data, 1, 9};
  auto options = private_options(1, 1);
  const auto run = [&] { return local_sgd(model->init(3), site, options).weights.w; };
  EXPECT_TRUE(at::equal(run(), run()));
  options.privacy->system = true;
  EXPECT_FALSE(at::equal(run(), run()));
}

TEST(PrivateSteps, WhatCannotBeClippedIsRefused) {
  const auto data = make_private_data(8);
  ModelOptions network;
  network.name = "mlp", network.hidden = {8}, network.norm = "batch";
  const std::shared_ptr<Model> model = std::move(*make_model(network, kShape));
  const Site site{*model, data, 1, 9};
  EXPECT_THROW(local_sgd(model->init(3), site, private_options(1, 1)), std::invalid_argument);
  const auto plain = testing::made("mlp100", kShape);
  const Job own{.gradient = [](Weights&, const Examples&, uint64_t, Tensor&) { return 0.0; }};
  EXPECT_THROW(local_sgd(plain->init(3), {*plain, data, 1, 9}, private_options(1, 1), own),
               std::logic_error);
}

}  // namespace
}  // namespace tessera

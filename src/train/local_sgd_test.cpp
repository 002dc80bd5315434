#include "train/local_sgd.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <mutex>
#include <set>

#include "base/key.hpp"

namespace tessera {
namespace {

constexpr int64_t kFeatures = 3, kClasses = 3, kSize = kFeatures * kClasses + kClasses;
using Vector = std::vector<double>;

// Softmax regression that remembers which samples it was shown: feature 0 is the sample's number.
class Linear final : public Model {
 public:
  Linear()
      : layout_({{"fc.weight", {kFeatures, kClasses}}, {"fc.bias", {kClasses}}}),
        buffers_({{"passes", {1}}}) {}
  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return buffers_; }
  Weights init(uint64_t key) const override {
    auto w = at::empty({kSize}, at::kFloat);
    Rng rng(key);
    for (int64_t i = 0; i < kSize; ++i) w.data_ptr<float>()[i] = static_cast<float>(rng.normal());
    return {w, at::zeros({1})};
  }
  Output forward(const Weights& at, const Tensor& x, const Pass& pass) const override {
    if (pass.train) {
      batches.emplace_back();
      for (int64_t i = 0; i < x.size(0); ++i)
        batches.back().push_back(static_cast<int>(std::lround(x[i][0].item<double>() * 10)));
      keys.insert(pass.key);
    }
    const auto views = layout_.views(at.w);
    return {x.matmul(views[0]) + views[1], x, pass.train ? at.b + 1 : at.b};
  }

  mutable std::vector<std::vector<int>> batches;
  mutable std::set<uint64_t> keys;

 private:
  Layout layout_, buffers_;
};

ClientData make_data(int64_t n) {
  auto pool = std::make_shared<Pool>();
  pool->x = at::empty({n, kFeatures}, at::kFloat);
  pool->y = at::empty({n}, at::kLong);
  pool->classes = kClasses;
  Rng rng(4);
  ClientData out;
  for (int64_t i = 0; i < n; ++i) {
    float* x = pool->x.data_ptr<float>() + i * kFeatures;
    x[0] = static_cast<float>(i) / 10;
    for (int64_t k = 1; k < kFeatures; ++k) x[k] = static_cast<float>(rng.normal());
    pool->y.data_ptr<int64_t>()[i] = i * i % kClasses;
    out.train.push_back(i);
  }
  out.pool = pool;
  return out;
}

Vector numbers(const Tensor& tensor) {
  Vector out;
  for (int64_t i = 0; i < tensor.numel(); ++i) out.push_back(tensor[i].item<double>());
  return out;
}

struct LossAndGradient {
  double loss = 0;
  Vector gradient = Vector(kSize);
};

// Mean cross-entropy and its gradient in double, from the formulas: (softmax − onehot) xᵀ / n.
LossAndGradient by_formula(const Vector& w, const ClientData& data, Part part = Part::kTrain) {
  LossAndGradient out;
  const auto n = static_cast<double>(data.size(part));
  for (const int64_t row : data.rows(part)) {
    const float* x = data.pool->x.data_ptr<float>() + row * kFeatures;
    const int64_t y = data.pool->y.data_ptr<int64_t>()[row];
    double logit[kClasses], total = 0;
    for (int64_t c = 0; c < kClasses; ++c) {
      logit[c] = w[static_cast<size_t>(kFeatures * kClasses + c)];
      for (int64_t k = 0; k < kFeatures; ++k)
        logit[c] += x[k] * w[static_cast<size_t>(k * kClasses + c)];
      total += std::exp(logit[c]);
    }
    out.loss += (std::log(total) - logit[y]) / n;
    for (int64_t c = 0; c < kClasses; ++c) {
      const double error = (std::exp(logit[c]) / total - (c == y ? 1 : 0)) / n;
      for (int64_t k = 0; k < kFeatures; ++k)
        out.gradient[static_cast<size_t>(k * kClasses + c)] += error * x[k];
      out.gradient[static_cast<size_t>(kFeatures * kClasses + c)] += error;
    }
  }
  return out;
}

void expect_near(const Tensor& got, const Vector& expected, double tolerance) {
  const auto values = numbers(got);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance) << i;
}

class LocalSgd : public ::testing::Test {
 protected:
  Site site(uint64_t key = 1, int64_t round = 1) { return {model, data, round, key}; }
  // Full-batch steps by a rule (w, g, step) -> w, in double.
  Vector by_rule(int steps, const std::function<void(Vector&, const Vector&, int)>& rule) {
    auto w = numbers(start.w);
    for (int t = 1; t <= steps; ++t) rule(w, by_formula(w, data).gradient, t);
    return w;
  }

  Linear model;
  ClientData data = make_data(10);
  Weights start = model.init(3);
  TrainOptions options{.epochs = 3, .batch = 10, .lr = 0.2};
};

TEST_F(LocalSgd, OneStepGoesDownTheGradient) {
  options.epochs = 1;
  const auto expected = by_formula(numbers(start.w), data);
  const auto trained = local_sgd(start, site(), options);
  EXPECT_EQ(trained.steps, 1);
  EXPECT_NEAR(trained.loss, expected.loss, 1e-6);
  expect_near(trained.weights.w,
              by_rule(1,
                      [](Vector& w, const Vector& g, int) {
                        for (size_t i = 0; i < w.size(); ++i) w[i] -= 0.2 * g[i];
                      }),
              1e-6);
}

TEST_F(LocalSgd, MomentumAndWeightDecay) {
  options.momentum = 0.9, options.weight_decay = 0.05;
  Vector velocity(kSize);
  const auto expected = by_rule(3, [&](Vector& w, const Vector& g, int) {
    for (size_t i = 0; i < w.size(); ++i) {
      velocity[i] = 0.9 * velocity[i] + g[i] + 0.05 * w[i];
      w[i] -= 0.2 * velocity[i];
    }
  });
  expect_near(local_sgd(start, site(), options).weights.w, expected, 3e-6);
}

TEST_F(LocalSgd, Adam) {
  options.optimizer = "adam", options.lr = 0.05, options.weight_decay = 0.1;
  Vector first(kSize), second(kSize);
  const auto expected = by_rule(3, [&](Vector& w, const Vector& g, int t) {
    for (size_t i = 0; i < w.size(); ++i) {
      const double all = g[i] + 0.1 * w[i];
      first[i] = 0.9 * first[i] + 0.1 * all;
      second[i] = 0.999 * second[i] + 0.001 * all * all;
      w[i] -= 0.05 * (first[i] / (1 - std::pow(0.9, t))) /
              (std::sqrt(second[i] / (1 - std::pow(0.999, t))) + 1e-8);
    }
  });
  expect_near(local_sgd(start, site(), options).weights.w, expected, 2e-5);
}

TEST_F(LocalSgd, TheOptimiserStartsAfreshInEveryCall) {
  options.momentum = 0.9, options.epochs = 1;
  const auto once = local_sgd(start, site(), options);
  const auto twice = local_sgd(once.weights, site(), options);
  expect_near(twice.weights.w,
              by_rule(2,
                      [](Vector& w, const Vector& g, int) {
                        for (size_t i = 0; i < w.size(); ++i) w[i] -= 0.2 * g[i];
                      }),
              2e-6);
}

TEST_F(LocalSgd, TheRateFallsWithTheRound) {
  options.lr_decay = 0.5, options.epochs = 1;
  const auto later = local_sgd(start, site(1, 4), options);  // 0.2 / 8
  const auto g = by_formula(numbers(start.w), data).gradient;
  auto expected = numbers(start.w);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] -= 0.025 * g[i];
  expect_near(later.weights.w, expected, 1e-6);
}

TEST_F(LocalSgd, EveryEpochShowsEverySampleOnceInANewOrder) {
  options.batch = 4, options.epochs = 2;
  EXPECT_EQ(local_sgd(start, site(), options).steps, 6);
  ASSERT_EQ(model.batches.size(), 6U);
  std::vector<std::vector<int>> epochs(2);
  for (size_t b = 0; b < 6; ++b) {
    EXPECT_EQ(model.batches[b].size(), b % 3 == 2 ? 2U : 4U);  // the last one is smaller
    epochs[b / 3].insert(epochs[b / 3].end(), model.batches[b].begin(), model.batches[b].end());
  }
  for (const auto& epoch : epochs)
    EXPECT_EQ(std::set<int>(epoch.begin(), epoch.end()),
              (std::set<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(model.keys.size(), 6U) << "dropout must differ from step to step";
}

TEST_F(LocalSgd, TheKeyDecidesTheOrderAndTheBits) {
  options.batch = 3;
  const auto a = local_sgd(start, site(5), options);
  const auto order = std::exchange(model.batches, {});
  const auto again = local_sgd(start, site(5), options);
  EXPECT_EQ(std::exchange(model.batches, {}), order);
  EXPECT_TRUE(a.weights.w.equal(again.weights.w));
  EXPECT_EQ(a.loss, again.loss);
  const auto other = local_sgd(start, site(6), options);
  EXPECT_NE(model.batches, order);
  EXPECT_FALSE(a.weights.w.equal(other.weights.w));
}

TEST_F(LocalSgd, TheStartIsLeftAsItIs) {
  const auto w = start.w.clone(), b = start.b.clone();
  const auto trained = local_sgd(start, site(), options);
  EXPECT_TRUE(start.w.equal(w));
  EXPECT_TRUE(start.b.equal(b));
  EXPECT_FALSE(trained.weights.w.equal(w));
  EXPECT_EQ(trained.weights.b.item<double>(), 3) << "running statistics of three passes";
}

TEST_F(LocalSgd, FrozenCoordinatesKeepTheirBits) {
  auto only = at::zeros({kSize}, at::kBool);
  for (const int64_t i : {0, 5, 11}) only[i] = true;
  for (const char* optimizer : {"sgd", "adam"}) {
    options.optimizer = optimizer;
    options.momentum = options.optimizer == "sgd" ? 0.9 : 0;
    options.weight_decay = 0.1;
    const auto trained = local_sgd(start, site(), options, {.only = only}).weights.w;
    for (int64_t i = 0; i < kSize; ++i)
      EXPECT_EQ(trained[i].item<float>() == start.w[i].item<float>(), !only[i].item<bool>()) << i;
  }
}

TEST_F(LocalSgd, MaskingEveryCoordinateInIsPlainTraining) {
  options.momentum = 0.5;
  const auto all = local_sgd(start, site(), options, {.only = at::ones({kSize}, at::kBool)});
  EXPECT_TRUE(all.weights.w.equal(local_sgd(start, site(), options).weights.w));
}

TEST_F(LocalSgd, TheHookSeesThePointAndItsGradientAndMayChangeIt) {
  options.epochs = 2;
  int calls = 0;
  const Job job{.hook = [&](const Tensor& w, Tensor& g) {
    expect_near(g, by_formula(numbers(w), data).gradient, 1e-6);
    g.fill_(1);
    ++calls;
  }};
  const auto trained = local_sgd(start, site(), options, job);
  EXPECT_EQ(calls, 2);
  expect_near(trained.weights.w - start.w, Vector(kSize, -0.4), 1e-6);
}

TEST_F(LocalSgd, JobsSetEpochsStepsAndPart) {
  options.batch = 4;
  EXPECT_EQ(local_sgd(start, site(), options, {.epochs = 5}).steps, 15);
  EXPECT_EQ(local_sgd(start, site(), options, {.max_steps = 4}).steps, 4);
  EXPECT_EQ(local_sgd(start, site(), options, {.max_steps = 1000}).steps, 9);
  data.support = {7};
  model.batches.clear();
  EXPECT_EQ(local_sgd(start, site(), options, {.part = Part::kSupport}).steps, 3);
  EXPECT_EQ(model.batches, (std::vector<std::vector<int>>{{7}, {7}, {7}}));
}

TEST_F(LocalSgd, AnEmptyPartIsNoTraining) {
  const auto trained = local_sgd(start, site(), options, {.part = Part::kVal});
  EXPECT_EQ(trained.steps, 0);
  EXPECT_EQ(trained.loss, 0);
  EXPECT_TRUE(trained.weights.w.equal(start.w));
  EXPECT_FALSE(trained.weights.w.is_same(start.w)) << "a copy, so that changing it is harmless";
  EXPECT_TRUE(std::isnan(part_loss(model, start, data, Part::kVal, Loss::kCrossEntropy)));
  const auto full = full_gradient(start, site(), Loss::kCrossEntropy, Part::kVal);
  EXPECT_EQ(full.grad.abs().sum().item<double>(), 0);
}

TEST_F(LocalSgd, TheFullGradientInChunksIsTheGradientOfTheWhole) {
  const auto whole = by_formula(numbers(start.w), data);
  for (const int64_t chunk : {1, 3, 10, 256}) {
    const auto got = full_gradient(start, site(), Loss::kCrossEntropy, Part::kTrain, chunk);
    expect_near(got.grad, whole.gradient, 1e-6);
    EXPECT_NEAR(got.loss, whole.loss, 1e-6);
    EXPECT_EQ(got.buffers.item<double>(), std::ceil(10.0 / static_cast<double>(chunk)));
    EXPECT_EQ(start.b.item<double>(), 0);
  }
}

TEST_F(LocalSgd, TheFullGradientOfATableModelIsThatOfAutograd) {
  const auto net = *make_model("mlp100", {{kFeatures}, kClasses});
  const auto at = net->init(2);
  const Site here{*net, data, 1, 1};
  for (const Loss& loss : {Loss::kCrossEntropy, Loss::kMultiLabel}) {
    const auto w = at.w.clone().requires_grad_(true);
    const auto all = data.range(Part::kTrain, 0, 10);
    const auto value = loss_value(loss, net->forward({w, at.b}, all.x, {true, 1}).logits, all.y);
    const auto expected = torch::autograd::grad({value}, {w})[0];
    const auto got = full_gradient(at, here, loss, Part::kTrain, 4);
    EXPECT_LT((got.grad - expected).abs().max().item<double>(), 1e-6);
    EXPECT_NEAR(got.loss, value.item<double>(), 1e-6);
    EXPECT_NEAR(part_loss(*net, at, data, Part::kTrain, loss), value.item<double>(), 1e-6);
  }
}

TEST_F(LocalSgd, PartLossIsTheMeanOverTheWholePart) {
  data.test = {1, 4, 9};
  EXPECT_NEAR(part_loss(model, start, data, Part::kTest, Loss::kCrossEntropy),
              by_formula(numbers(start.w), data, Part::kTest).loss, 1e-6);
  // More samples than one batch of evaluation, with an incomplete last one.
  data = make_data(301);
  const auto small = Weights{0.01 * start.w, start.b};
  EXPECT_NEAR(part_loss(model, small, data, Part::kTrain, Loss::kCrossEntropy),
              by_formula(numbers(small.w), data).loss, 1e-6);
}

}  // namespace
}  // namespace tessera

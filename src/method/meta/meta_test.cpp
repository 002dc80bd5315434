// Meta-gradients against central differences in float64, and the pieces they are made of.
#include "method/meta/meta.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <set>

#include "base/key.hpp"
#include "method/meta/implicit.hpp"
#include "train/check_task.hpp"

namespace tessera {
namespace {

Tensor normals(at::IntArrayRef sizes, uint64_t key) {
  auto out = at::empty(sizes, at::kDouble);
  Rng rng(key);
  for (int64_t i = 0; i < out.numel(); ++i) out.data_ptr<double>()[i] = rng.normal();
  return out;
}

/// One client with `n` random samples, all for training.
ClientData client_of(const Shape& shape, int64_t n) {
  auto pool = std::make_shared<Pool>();
  std::vector<int64_t> sizes{n};
  sizes.insert(sizes.end(), shape.sample.begin(), shape.sample.end());
  pool->x = normals(sizes, 5).to(at::kFloat);
  pool->y = at::empty({n}, at::kLong);
  pool->classes = shape.classes;
  Rng rng(6);
  for (int64_t i = 0; i < n; ++i)
    pool->y[i] = static_cast<int64_t>(rng.below(static_cast<uint64_t>(shape.classes)));
  ClientData out;
  out.pool = pool;
  for (int64_t i = 0; i < n; ++i) out.train.push_back(i);
  return out;
}

struct Case {
  std::string name, model, inner;
  Shape shape;
  int64_t passes = 1;
};

class MetaGradients : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    const auto& c = GetParam();
    model_ = *make_model(c.model, c.shape, Init::kTorch);
    const auto first = model_->init(3);
    start_ = {first.w.to(at::kDouble), first.b.to(at::kDouble)};
    data_ = client_of(c.shape, 40);
    train_.batch = 6;
    options_.inner = c.inner, options_.support = 0.4;
    const Site site{*model_, data_, 1, 77};
    task_.emplace(training_task(site, train_, options_));
    objective_.emplace(*model_, Loss::kCrossEntropy, 9);
    // Rates so large that the second derivatives matter, and different in every coordinate.
    alpha_ = 0.5 * normals({start_.w.numel()}, 8).abs();
  }

  double query_loss(const Tensor& w, const Tensor& alpha) const {
    auto way = adapt(*objective_, {w, start_.b}, alpha, task_->support, GetParam().passes);
    Tensor unused;
    return query_gradient(*objective_, way.weights, task_->query, unused);
  }
  /// Largest error over some directions, relative to the slope along them: the gradient itself, and
  /// random ones. The step is small because ReLU has kinks (docs/methods.md §10.4).
  template <class At>
  double error(const Tensor& gradient, At at) const {
    constexpr double kStep = 1e-8;
    double worst = 0;
    for (int64_t k = 0; k < 4; ++k) {
      auto direction = k == 0 ? gradient : gradient.abs() * normals(gradient.sizes(), 100 + k);
      direction = direction / direction.norm();
      const double slope = (at(kStep * direction) - at(-kStep * direction)) / (2 * kStep);
      worst = std::max(
          worst, std::abs((gradient * direction).sum().item<double>() - slope) / std::abs(slope));
    }
    return worst;
  }

  std::unique_ptr<Model> model_;
  Weights start_;
  ClientData data_;
  TrainOptions train_;
  MetaOptions options_;
  std::optional<MetaTask> task_;
  std::optional<ModelObjective> objective_;
  Tensor alpha_;
};

TEST_P(MetaGradients, MatchDifferences) {
  const auto scalar = at::full({}, 0.3, at::kDouble);
  const auto moved = [&](const Tensor& by) { return query_loss(start_.w + by, scalar); };
  const auto exact = meta_gradient(*objective_, start_, scalar, *task_, GetParam().passes, true);
  EXPECT_LT(error(exact.w, moved), 1e-3);
  const auto first = meta_gradient(*objective_, start_, scalar, *task_, GetParam().passes, false);
  EXPECT_GT(error(first.w, moved), 1e-2) << "the inner steps are too small to test anything";
  EXPECT_EQ(exact.loss, query_loss(start_.w, scalar));
}

TEST_P(MetaGradients, OfLearnedRatesMatchDifferences) {
  const auto exact = meta_gradient(*objective_, start_, alpha_, *task_, GetParam().passes, true);
  EXPECT_LT(error(exact.w, [&](const Tensor& by) { return query_loss(start_.w + by, alpha_); }),
            1e-3);
  EXPECT_LT(error(exact.alpha, [&](const Tensor& by) { return query_loss(start_.w, alpha_ + by); }),
            1e-3);
}

const Shape kGrey{{1, 28, 28}, 10}, kColour{{3, 32, 32}, 10};
INSTANTIATE_TEST_SUITE_P(Models, MetaGradients,
                         ::testing::Values(Case{"mlp100_per_batch", "mlp100", "per_batch", kGrey},
                                           Case{"mlp100_one_step", "mlp100", "one_step", kGrey},
                                           Case{"mlp100_two_passes", "mlp100", "per_batch", kGrey,
                                                2},
                                           Case{"lenet_per_batch", "lenet", "per_batch", kColour},
                                           Case{"lenet_one_step", "lenet", "one_step", kColour},
                                           Case{"batch_norm", "lenet16-bn", "per_batch", kGrey}),
                         [](const auto& test) { return test.param.name; });

TEST(MetaTask, SupportIsThePrefixAndNothingIsInBoth) {
  const Shape shape{{1}, 10};
  auto data = client_of(shape, 50);
  auto pool = *data.pool;
  pool.x = at::arange(50, at::kFloat).view({50, 1});
  data.pool = std::make_shared<Pool>(pool);
  const auto model = *make_model("mlp100", shape);
  TrainOptions train;
  train.batch = 4;
  const auto rows = [](const Batches& batches) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < batches.count(); ++i) {
      const auto batch = batches.at(i);
      for (int64_t k = 0; k < batch.size(); ++k)
        out.push_back(static_cast<int64_t>(batch.x[k].item<float>()));
    }
    return out;
  };
  const auto task = training_task({*model, data, 1, 11}, train, {});
  const auto support = rows(task.support), query = rows(task.query);
  EXPECT_EQ(task.support.count(), 3);
  EXPECT_EQ(std::set(support.begin(), support.end()),
            (std::set<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(query.size(), 40U);
  EXPECT_EQ(query.front(), 10);
  EXPECT_EQ(rows(training_task({*model, data, 1, 11}, train, {}).support), support);
  EXPECT_NE(rows(training_task({*model, data, 2, 12}, train, {}).support), support);

  MetaOptions options;
  options.max_inner_batches = 2;
  EXPECT_EQ(training_task({*model, data, 1, 11}, train, options).support.samples(), 8);
  options.inner = "one_step";  // one batch, however many samples
  EXPECT_EQ(training_task({*model, data, 1, 11}, train, options).support.count(), 1);
  EXPECT_EQ(training_task({*model, data, 1, 11}, train, options).support.samples(), 10);
}

// 50 rows in the order of time, each with hours of the three before it: support is the first 10
// without the last three, query the later 40.
TEST(MetaTask, OfATimeSeriesLeavesAGap) {
  const Shape shape{{1}, 10};
  auto data = client_of(shape, 50);
  data.order = {true, 3};
  data.log = std::make_shared<BatchLog>();
  const auto model = *make_model("mlp100", shape);
  const auto task = training_task({*model, data, 1, 11}, {.batch = 100}, {});
  EXPECT_EQ(task.support.samples(), 7);
  EXPECT_EQ(task.query.samples(), 40);
  task.support.at(0), task.query.at(0);
  const auto& support = data.log->at(0).second;
  EXPECT_EQ(*std::max_element(support.begin(), support.end()), 6);
  EXPECT_EQ(data.log->at(1).second.front(), 10);
}

TEST(MetaTask, EvaluationAdaptsOnTheSupportPartIfThereIsOne) {
  const Shape shape{{1}, 10};
  auto data = client_of(shape, 50);
  const auto model = *make_model("mlp100", shape);
  EXPECT_EQ(evaluation_support({*model, data, 1, 11}, {}, {}).samples(), 50);
  data.support = {3, 4, 5};
  EXPECT_EQ(evaluation_support({*model, data, 1, 11}, {}, {}).samples(), 3);
}

TEST(MetaTask, NeedsTwoSamples) {
  EXPECT_TRUE(check_task(client_of({{1}, 10}, 2)).ok());
  EXPECT_FALSE(check_task(client_of({{1}, 10}, 1)).ok());
}

TEST(OuterStep, OfAFreshAdamMovesEveryCoordinateByTheRate) {
  const auto w = at::tensor({1.0, 2.0, 3.0}, at::kDouble);
  const auto g = at::tensor({1e-3, -70.0, 0.0}, at::kDouble);
  EXPECT_TRUE(at::allclose(outer_step(w, g, 0.01, "adam"),
                           at::tensor({0.99, 2.01, 3.0}, at::kDouble), 1e-6));
  EXPECT_TRUE(
      at::allclose(outer_step(w, g, 0.01, "sgd"), at::tensor({1 - 1e-5, 2.7, 3.0}, at::kDouble)));
}

/// ½ φᵀAφ − bᵀφ, with A and b of the support (labels 0) or of the query set (labels 1).
class Quadratic final : public Objective {
 public:
  std::vector<Tensor> a, b;
  double gradient(Weights& at, const Examples& batch, int64_t, Tensor& grad) const override {
    const auto k = static_cast<size_t>(batch.y[0].item<int64_t>());
    grad.copy_(a[k].mv(at.w) - b[k]);
    return (0.5 * at.w.dot(a[k].mv(at.w)) - b[k].dot(at.w)).item<double>();
  }
  Tensor hessian_times(const Weights&, const Examples& batch, int64_t,
                       const Tensor& v) const override {
    return a[static_cast<size_t>(batch.y[0].item<int64_t>())].mv(v);
  }
};

TEST(Implicit, GradientIsExactOnAQuadratic) {
  constexpr int64_t kSize = 5;
  Quadratic objective;
  for (uint64_t k = 0; k < 2; ++k) {
    const auto root = normals({kSize, kSize}, 20 + k);
    objective.a.push_back(root.mm(root.t()) + at::eye(kSize, at::kDouble));
    objective.b.push_back(normals({kSize}, 30 + k));
  }
  auto data = client_of({{1}, 2}, 2);
  auto pool = *data.pool;
  pool.y = at::arange(2, at::kLong);
  data.pool = std::make_shared<Pool>(pool);
  const MetaTask task{{data, Part::kTrain, {0}, 1}, {data, Part::kTrain, {1}, 1}};
  const Weights start{normals({kSize}, 40), at::empty({0}, at::kDouble)};
  const ImplicitOptions options{.lam = 2, .inner_steps = 2000, .cg_steps = kSize};
  const auto found = implicit_gradient(objective, start, 0.02, task, options);

  // phi* = (A + lam)⁻¹ (b + lam w), and its derivative by w is lam (A + lam)⁻¹.
  const auto inverse =
      (objective.a[0] + options.lam * at::eye(kSize, at::kDouble)).inverse().contiguous();
  const auto solution = inverse.mv(objective.b[0] + options.lam * start.w);
  const auto exact = options.lam * inverse.mv(objective.a[1].mv(solution) - objective.b[1]);
  EXPECT_TRUE(at::allclose(proximal(objective, start, 0.02, task.support, options).w, solution,
                           1e-9, 1e-12));
  EXPECT_LT((found.w - exact).norm().item<double>(), 1e-8 * exact.norm().item<double>());
}

TEST(Implicit, GradientMatchesDifferencesOnANetwork) {
  at::set_num_threads(1);
  // Smooth: the end of the inner problem may rest on a kink of ReLU, where it has no derivative.
  const Shape shape{{3, 4}, 3};
  const auto model = *make_model("gru64", shape);
  const auto data = client_of(shape, 40);
  const auto first = model->init(3);
  const Weights start{first.w.to(at::kDouble), first.b.to(at::kDouble)};
  MetaOptions meta;
  meta.inner = "one_step", meta.support = 0.4;
  const auto task = training_task({*model, data, 1, 77}, {}, meta);
  const ModelObjective objective(*model, Loss::kCrossEntropy, 9);
  const ImplicitOptions options{.lam = 2, .inner_steps = 60, .cg_steps = 40};
  const auto found = implicit_gradient(objective, start, 0.2, task, options);
  const auto loss = [&](const Tensor& w) {
    auto end = proximal(objective, {w, start.b}, 0.2, task.support, options);
    Tensor unused;
    return query_gradient(objective, end, task.query, unused);
  };
  constexpr double kStep = 1e-7;
  for (uint64_t k = 0; k < 3; ++k) {
    auto direction = k == 0 ? found.w : found.w.abs() * normals({start.w.numel()}, 50 + k);
    direction = direction / direction.norm();
    const double slope =
        (loss(start.w + kStep * direction) - loss(start.w - kStep * direction)) / (2 * kStep);
    EXPECT_NEAR(found.w.dot(direction).item<double>(), slope, 1e-3 * std::abs(slope));
  }
}

TEST(ConjugateGradients, StopWhereTheMatrixIsNotPositive) {
  const auto b = at::tensor({1.0, 2.0}, at::kDouble);
  const auto x = conjugate_gradients([](const Tensor& v) { return -v; }, b, 5);
  EXPECT_TRUE(at::equal(x, b));  // the plain gradient
}

}  // namespace
}  // namespace tessera

// Clipped gradients of single samples against a loop over the samples, by autograd in float64.
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "model/fast/kernels.hpp"
#include "model/fast/kernels_testing.hpp"
#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::batch;
using testing::distance;
using testing::labels;
using testing::made;

struct Case {
  std::string name;
  Shape shape;
};

const std::vector<Case>& cases() {
  static const Shape small{{1, 20, 20}, 4}, colours{{3, 20, 20}, 4}, hours{{5, 7}, 3};
  static const std::vector<Case> out{{"mlp100", {{6}, 3}},
                                     {"lenet", small},
                                     {"facnn", small},
                                     {"alex28-s", colours},
                                     {"lenet-smooth", {{1, 28, 28}, 4}},
                                     {"gru64", hours},
                                     {"vit-s28", {{1, 28, 28}, 4}}};
  return out;
}

Tensor gradient_of(const Model& model, const Tensor& w, const Tensor& x, const Tensor& y,
                   const Loss& loss) {
  const auto at = w.detach().requires_grad_(true);
  const auto logits = model.forward({at, at::empty({0}, w.options())}, x, {true, 0}).logits;
  return torch::autograd::grad({loss_value(loss, logits, y)}, {at})[0];
}

Tensor weights_of(const Model& model, uint64_t key) {
  const Tensor noise = testing::normal({model.layout().numel()}, derive(key, 1)).to(at::kFloat);
  return model.init(key).w + 0.01 * noise;
}

/// Norms of all samples, and the clipped sum over `count`.
std::pair<std::vector<double>, Tensor> by_loop(const Model& model, const Tensor& w, const Tensor& x,
                                               const Tensor& y, const Loss& loss,
                                               const Clip& clip) {
  std::vector<double> norms;
  auto sum = at::zeros({w.numel()}, at::kDouble);
  for (int64_t i = 0; i < x.size(0); ++i) {
    const auto g = gradient_of(model, w.to(at::kDouble), x.narrow(0, i, 1).to(at::kDouble),
                               y.narrow(0, i, 1), loss);
    norms.push_back(g.norm().item<double>());
    sum += g * std::min(1.0, clip.bound / norms.back()) / clip.count;
  }
  return {norms, sum};
}

void expect_loop(const Case& one, const Loss& loss, int64_t n) {
  const auto model = made(one.name, one.shape);
  ASSERT_EQ(model->no_clipping(), "");
  const auto w = weights_of(*model, 3);
  const Tensor x = batch(one.shape, n, 5).to(at::kFloat), y = labels(n, one.shape.classes, 6);
  auto sorted = by_loop(*model, w, x, y, loss, {}).first;
  std::sort(sorted.begin(), sorted.end());
  // Between the samples, so that some are clipped and some are not.
  const Clip clip{.bound = 0.5 * (sorted[sorted.size() / 2] + sorted[(sorted.size() - 1) / 2]),
                  .count = 3};
  const auto [norms, sum] = by_loop(*model, w, x, y, loss, clip);
  Tensor grad = at::full({w.numel()}, NAN);
  std::vector<double> got;
  double value = 0;
  ASSERT_TRUE(model->clipped_gradient({w, at::empty({0})}, x, y, loss, clip, grad, got, value));
  ASSERT_EQ(got.size(), norms.size());
  for (size_t i = 0; i < norms.size(); ++i) EXPECT_NEAR(got[i], norms[i], 1e-5 * norms[i]);
  EXPECT_LT(distance(grad, sum), 1e-5) << one.name;
}

TEST(PerSample, NormsAndClippedSumsAreThoseOfALoop) {
  for (const auto& one : cases()) {
    SCOPED_TRACE(one.name);
    expect_loop(one, Loss::kCrossEntropy, 6);
  }
  expect_loop(cases()[0], Loss::kMultiLabel, 5);
  // More samples than a Transformer takes at a time.
  expect_loop(cases().back(), Loss::kCrossEntropy, 19);
}

TEST(PerSample, EverySetOfKernelsGivesThem) {
  for (const auto* set : fast::runnable_kernels()) {
    const fast::KernelScope scope(*set);
    SCOPED_TRACE(set->name);
    expect_loop(cases()[1], Loss::kCrossEntropy, 3);
    expect_loop({"gru128", {{4, 3}, 3}}, Loss::kCrossEntropy, 3);
  }
}

TEST(PerSample, OfUnitsThatDoNotFillAVector) {
  ModelOptions options;
  options.name = "gru", options.units = 5;
  const Shape shape{{4, 3}, 3};
  const std::shared_ptr<Model> model = std::move(*make_model(options, shape));
  const auto w = weights_of(*model, 3);
  const Tensor x = batch(shape, 4, 5).to(at::kFloat), y = labels(4, 3, 6);
  const Clip clip{.bound = 0.1, .count = 4};
  const auto [norms, sum] = by_loop(*model, w, x, y, Loss::kCrossEntropy, clip);
  Tensor grad = at::empty({w.numel()});
  std::vector<double> got;
  double value = 0;
  ASSERT_TRUE(model->clipped_gradient({w, at::empty({0})}, x, y, Loss::kCrossEntropy, clip, grad,
                                      got, value));
  for (size_t i = 0; i < norms.size(); ++i) EXPECT_NEAR(got[i], norms[i], 1e-5 * norms[i]);
  EXPECT_LT(distance(grad, sum), 1e-5);
}

// Whoever clips nothing trains as everybody does.
TEST(PerSample, WithoutClippingItIsTheOrdinaryGradientBitForBit) {
  for (const auto& one : cases()) {
    const auto model = made(one.name, one.shape);
    const Weights at{weights_of(*model, 3), at::empty({0})};
    const int64_t n = 7;  // no power of 2
    const Tensor x = batch(one.shape, n, 5).to(at::kFloat), y = labels(n, one.shape.classes, 6);
    Tensor grad = at::empty_like(at.w), plain = at::empty_like(at.w);
    std::vector<double> norms;
    double value = 0, plain_value = 0;
    ASSERT_TRUE(
        model->clipped_gradient(at, x, y, Loss::kCrossEntropy, {1e9, n}, grad, norms, value));
    if (!model->value_and_grad(at, x, y, Loss::kCrossEntropy, plain, plain_value))
      plain = gradient_of(*model, at.w, x, y, Loss::kCrossEntropy), plain_value = value;
    EXPECT_TRUE(at::equal(grad, plain)) << one.name;
    EXPECT_EQ(value, plain_value) << one.name;
  }
}

// The masks of a pass follow from its key and a sample's place in the batch.
TEST(PerSample, DropoutIsThatOfTheKey) {
  ModelOptions options;
  options.name = "mlp", options.hidden = {12}, options.dropout = 0.5;
  const Shape shape{{6}, 3};
  const std::shared_ptr<Model> model = std::move(*make_model(options, shape));
  const Weights at{weights_of(*model, 3), at::empty({0})};
  const Tensor x = batch(shape, 4, 5).to(at::kFloat), y = labels(4, 3, 6);
  Tensor grad = at::empty_like(at.w);
  std::vector<double> norms;
  double value = 0;
  ASSERT_TRUE(
      model->clipped_gradient(at, x, y, Loss::kCrossEntropy, {1e9, 4, 77}, grad, norms, value));
  const auto w = at.w.detach().requires_grad_(true);
  const auto loss =
      loss_value(Loss::kCrossEntropy, model->forward({w, at.b}, x, {true, 77}).logits, y);
  EXPECT_TRUE(at::equal(grad, torch::autograd::grad({loss}, {w})[0]));
}

TEST(PerSample, NetworksWithoutThemSayWhy) {
  const auto says = [](const Model& model, const std::string& what) {
    const int64_t d = model.layout().numel();
    Tensor grad = at::zeros({d});
    std::vector<double> norms;
    double value = 0;
    EXPECT_FALSE(model.clipped_gradient(model.init(1), at::zeros({2, 3, 32, 32}),
                                        at::zeros({2}, at::kLong), Loss::kCrossEntropy, {}, grad,
                                        norms, value));
    EXPECT_THAT(model.no_clipping(), ::testing::HasSubstr(what));
  };
  says(*made("lenet16-bn", testing::kPhotos), "use a network without batch norm");
  says(*made("vit-p", testing::kPhotos), "use vit with dropout = 0");
}

}  // namespace
}  // namespace tessera

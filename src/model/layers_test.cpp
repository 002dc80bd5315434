#include "model/layers.hpp"

#include "model/test_data.hpp"

namespace tessera {
namespace {

const Layout kTwo({{"bn1.running_mean", {2}}, {"bn1.running_var", {2}}});

Tensor vec(std::vector<double> values) { return at::tensor(values, at::kDouble); }

TEST(BatchNorms, TrainingByHand) {
  // Columns (1, 2, 6) and (0, 0, 3): means 3 and 1, biased variances 14/3 and 2, unbiased 7 and 3.
  const Tensor x = vec({1, 0, 2, 0, 6, 3}).view({3, 2});
  const Tensor start = vec({10, 20, 1, 2});
  BatchNorms norms(kTwo, start, true);
  const Tensor y = norms.apply(x, vec({2, 1}), vec({0.5, 0}));
  EXPECT_NEAR(y[0][0].item<double>(), 2 * (1 - 3) / std::sqrt(14.0 / 3 + 1e-5) + 0.5, 1e-12);
  EXPECT_NEAR(y[2][1].item<double>(), (3 - 1) / std::sqrt(2 + 1e-5), 1e-12);
  EXPECT_TRUE(at::allclose(norms.buffers(), vec({0.9 * 10 + 0.1 * 3, 0.9 * 20 + 0.1 * 1,
                                                 0.9 * 1 + 0.1 * 7, 0.9 * 2 + 0.1 * 3})));
  EXPECT_TRUE(at::equal(start, vec({10, 20, 1, 2})));
}

TEST(BatchNorms, EvaluationUsesTheRunningValues) {
  const Tensor x = vec({1, 0, 2, 0, 6, 3}).view({3, 2});
  const Tensor start = vec({10, 20, 4, 9});
  BatchNorms norms(kTwo, start, false);
  const Tensor y = norms.apply(x, vec({2, 1}), vec({0.5, 0}));
  EXPECT_NEAR(y[0][0].item<double>(), 2 * (1 - 10) / std::sqrt(4 + 1e-5) + 0.5, 1e-12);
  EXPECT_NEAR(y[1][1].item<double>(), (0 - 20) / std::sqrt(9 + 1e-5), 1e-12);
  EXPECT_TRUE(at::equal(norms.buffers(), start));
}

TEST(BatchNorms, ASingleValueLeavesTheRunningOnesFinite) {
  const Tensor start = vec({10, 20, 4, 9});
  BatchNorms norms(kTwo, start, true);
  const Tensor y = norms.apply(vec({11, 20}).view({1, 2}), vec({1, 1}), vec({0, 0}));
  EXPECT_NEAR(y[0][0].item<double>(), 1 / std::sqrt(4 + 1e-5), 1e-12);
  EXPECT_TRUE(at::equal(norms.buffers(), start));
}

TEST(BatchNorms, OfANetworkMoveByItsActivations) {
  const Shape shape{{1, 16, 16}, 4};
  const auto model = testing::made("lenet16-bn", shape);
  const Weights at = testing::moved(*model, 6);
  const Tensor x = testing::batch(shape, 5, 8);
  const auto out = model->forward({at.w.clone().requires_grad_(), at.b}, x, {true, 0});
  EXPECT_FALSE(out.buffers.requires_grad());
  const auto views = model->layout().views(at.w);
  const Tensor conv1 = at::conv2d(x, views[0], views[1]).transpose(0, 1).flatten(1);
  const auto moved = model->buffers().views(out.buffers);
  EXPECT_TRUE(at::allclose(moved[0], 0.1 * conv1.mean(1)));
  EXPECT_TRUE(at::allclose(moved[1], 0.9 + 0.1 * conv1.var(1, true)));
  EXPECT_TRUE(at::equal(model->forward(at, x, {}).buffers, at.b));
}

TEST(Dropped, KeepsTheMeanAndScalesWhatIsLeft) {
  const Tensor ones = at::ones({200, 500}, at::kDouble);
  const Tensor y = dropped(ones, 0.3, 17);
  const Tensor kept = y != 0;
  EXPECT_TRUE(at::allclose(y.masked_select(kept), at::full({}, 1 / 0.7, at::kDouble), 1e-6));
  // 100,000 coins: standard deviation 0.00145.
  EXPECT_NEAR(kept.to(at::kDouble).mean().item<double>(), 0.7, 0.006);
}

TEST(Dropped, IsAFunctionOfTheKey) {
  const Tensor x = testing::normal({8, 64}, 1);
  EXPECT_TRUE(at::equal(dropped(x, 0.5, 2), dropped(x, 0.5, 2)));
  EXPECT_FALSE(at::equal(dropped(x, 0.5, 2), dropped(x, 0.5, 3)));
}

TEST(Dropped, OfANetworkInTrainingOnly) {
  const Shape shape{{1, 28, 28}, 10};
  const auto model = testing::made("alex28", shape);
  const Weights at = model->init(1);
  const Tensor x = testing::batch(shape, 2, 3).to(at::kFloat);
  const auto train = model->forward(at, x, {true, 4});
  EXPECT_TRUE(at::equal(train.logits, model->forward(at, x, {true, 4}).logits));
  EXPECT_FALSE(at::equal(train.logits, model->forward(at, x, {true, 5}).logits));
  const Tensor eval = model->forward(at, x, {false, 4}).logits;
  EXPECT_TRUE(at::equal(eval, model->forward(at, x, {false, 5}).logits));
  // Without dropout about half of the 512 features are positive; with it half of these are left.
  const auto alive = (train.features != 0).sum().item<int64_t>();
  const auto all = (model->forward(at, x, {}).features != 0).sum().item<int64_t>();
  EXPECT_NEAR(static_cast<double>(alive) / static_cast<double>(all), 0.5, 0.12);
}

}  // namespace
}  // namespace tessera

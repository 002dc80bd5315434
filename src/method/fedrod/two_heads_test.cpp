#include "method/fedrod/two_heads.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <numeric>

#include "base/key.hpp"

namespace tessera {
namespace {

/// Unequal classes: 0, 0, 1 in turn; class 2 is absent.
ClientData samples(int64_t n) {
  auto pool = std::make_shared<Pool>();
  pool->x = at::empty({n, 5}, at::kFloat);
  pool->y = (at::arange(n, at::kLong) % 3).eq(2).to(at::kLong);
  pool->classes = 3;
  Rng rng(5);
  auto* x = pool->x.data_ptr<float>();
  for (int64_t i = 0; i < pool->x.numel(); ++i) x[i] = static_cast<float>(rng.normal());
  ClientData out;
  out.pool = pool;
  out.train.resize(static_cast<size_t>(n));
  std::iota(out.train.begin(), out.train.end(), 0);
  return out;
}

/// The same network without its hand-written gradient.
class Plain final : public Model {
 public:
  explicit Plain(const Model& inner) : inner_(inner) {}
  const Layout& layout() const override { return inner_.layout(); }
  const Layout& buffers() const override { return inner_.buffers(); }
  Weights init(uint64_t key) const override { return inner_.init(key); }
  Output forward(const Weights& at, const Tensor& x, const Pass& pass) const override {
    return inner_.forward(at, x, pass);
  }

 private:
  const Model& inner_;
};

class TwoHeadsTest : public ::testing::TestWithParam<bool> {};

TEST_P(TwoHeadsTest, HandWrittenGradientsAndAutogradAgree) {
  const auto model = *make_model("mlp100", {{5}, 3});
  const Plain plain(*model);
  const PrivateHead head(*linear_head(model->layout()), GetParam());
  const auto data = samples(20);
  TrainOptions train;
  train.batch = 8, train.lr = 0.1, train.epochs = 3, train.momentum = 0.9;
  const TwoHeads start{model->init(1), head.init(2) + 0.01};
  const auto a = train_two_heads(start, head, {*model, data, 1, 42}, train, 1);
  const auto b = train_two_heads(start, head, {plain, data, 1, 42}, train, 1);
  EXPECT_TRUE(at::allclose(a.weights.w, b.weights.w, 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(a.source, b.source, 1e-4, 1e-5));
  EXPECT_NEAR(a.loss, b.loss, 1e-5);
  EXPECT_GT((a.source - start.source).abs().max().item<double>(), 1e-3);
}
INSTANTIATE_TEST_SUITE_P(Hyper, TwoHeadsTest, ::testing::Bool());

// Central differences of both losses, in the directions that each of them may move.
TEST_P(TwoHeadsTest, OneStepFollowsTheSlopesOfBothLosses) {
  const auto model = *make_model("mlp100", {{5}, 3});
  const PrivateHead head(*linear_head(model->layout()), GetParam());
  const auto data = samples(12);
  const auto all = data.range(Part::kTrain, 0, 12);
  const auto shares = class_shares(data).to(at::kDouble);
  const auto shift = balance(data.class_counts(Part::kTrain), 1).to(at::kDouble);
  TrainOptions train;
  train.batch = 100, train.lr = 1;
  const TwoHeads start{model->init(1), head.init(2) + 0.01};
  const auto after = train_two_heads(start, head, {*model, data, 1, 42}, train, 1);
  const auto w = start.weights.w.to(at::kDouble), source = start.source.to(at::kDouble);
  const auto ce = [&](const Tensor& logits) {
    return loss_value(Loss::kCrossEntropy, logits, all.y).item<double>();
  };
  const auto generic = [&](const Tensor& at) {
    return ce(model->forward({at, start.weights.b}, all.x, Pass{}).logits + shift);
  };
  const auto personal = [&](const Tensor& at) {
    return ce(model->forward(head.added({w, start.weights.b}, at, shares), all.x, Pass{}).logits);
  };
  Rng rng(3);
  const auto slope = [&](const auto& loss, const Tensor& at, const Tensor& along) {
    return (loss(at + 1e-6 * along) - loss(at - 1e-6 * along)) / 2e-6;
  };
  for (int i = 0; i < 4; ++i) {
    auto u = at::empty_like(w), v = at::empty_like(source);
    for (auto* t : {&u, &v})
      for (int64_t k = 0; k < t->numel(); ++k) t->data_ptr<double>()[k] = rng.normal();
    const auto step_w = (start.weights.w - after.weights.w).to(at::kDouble);
    const auto step_source = (start.source - after.source).to(at::kDouble);
    EXPECT_NEAR(step_w.dot(u).item<double>(), slope(generic, w, u), 1e-4);
    EXPECT_NEAR(step_source.dot(v).item<double>(), slope(personal, source, v), 1e-4);
  }
}

TEST(PrivateHead, AHypernetworkByHand) {
  const LinearHead shape{2, 1, 0};  // P has 4 numbers
  const PrivateHead head(shape, true);
  ASSERT_EQ(head.numel(), 16 * 2 + 16 + 4 * 16 + 4);
  auto source = at::zeros({head.numel()});
  source[0] = 2;              // hidden 0 from share 0
  source[3] = -1;             // hidden 1 from share 1: rectified away
  source[48 + 0] = 3;         // P_0 from hidden 0
  source[48 + 16 + 1] = 5;    // P_1 from hidden 1
  source[48 + 64 + 3] = 0.5;  // bias of P_3
  const auto p = head.made_of(source, at::tensor({0.25F, 0.75F}));
  EXPECT_TRUE(p.equal(at::tensor({1.5F, 0.0F, 0.0F, 0.5F})));
}

TEST(PrivateHead, StartsAtZeroAndCanLearn) {
  const PrivateHead head({3, 4, 0}, true);
  auto source = head.init(1).requires_grad_(true);
  const auto p = head.made_of(source, at::tensor({0.5F, 0.5F, 0.0F}));
  EXPECT_EQ(p.abs().max().item<float>(), 0);
  const auto grad = torch::autograd::grad({p.sum()}, {source})[0];
  // Not through the biases alone: hidden units are awake.
  EXPECT_GT(grad.slice(0, 16 * 4, 16 * 4 + 16 * 15).abs().sum().item<double>(), 0);
}

TEST(ClassShares, SumToOneOrAreZero) {
  EXPECT_TRUE(class_shares(samples(12)).equal(at::tensor({8 / 12.0F, 4 / 12.0F, 0.0F})));
  auto nobody = samples(12);
  nobody.train.clear();
  EXPECT_TRUE(class_shares(nobody).equal(at::zeros({3})));
}

}  // namespace
}  // namespace tessera

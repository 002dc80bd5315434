// The hand-written Hessian products against two derivatives by autograd in float64.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/fast/fast_net.hpp"
#include "model/fast/kernels_testing.hpp"
#include "model/test_data.hpp"

namespace tessera {
namespace {

Tensor reference(const Model& model, const Tensor& w, const Tensor& x, const Tensor& y, Loss loss,
                 const Tensor& v) {
  const Tensor at = w.to(at::kDouble).detach().requires_grad_(true);
  const auto out = model.forward({at, at::empty({0}, at::kDouble)}, x.to(at::kDouble), {});
  const auto slope =
      torch::autograd::grad({loss_value(loss, out.logits, y)}, {at}, {}, true, true)[0];
  return torch::autograd::grad({slope}, {at}, {v.to(at::kDouble)})[0];
}

/// Every layer apart: a small layer cannot hide behind a large one.
void expect_hessian(const FastNet& net, const Sequential& model, int64_t n, Loss loss,
                    uint64_t key) {
  const Shape shape{model.spec().sample, net.classes()};
  const int64_t d = net.parameters();
  const Tensor w = model.init(key).w + 0.01 * testing::normal({d}, derive(key, 1)).to(at::kFloat);
  const Tensor v = testing::normal({d}, derive(key, 2)).to(at::kFloat);
  const Tensor x = testing::batch(shape, n, derive(key, 3)).to(at::kFloat);
  const Tensor y = testing::labels(n, net.classes(), derive(key, 4));
  Tensor product = at::full({d}, std::nan(""), at::kFloat);
  ASSERT_TRUE(net.hessian_times(w.data_ptr<float>(), x, y, loss, v.data_ptr<float>(),
                                product.data_ptr<float>()));
  const Tensor want = reference(model, w, x, y, loss, v);
  const auto got = model.layout().views(product.to(at::kDouble));
  const auto truth = model.layout().views(want);
  for (size_t i = 0; i < got.size(); ++i) {
    const double size = truth[i].norm().item<double>();
    EXPECT_GT(size, 0);
    EXPECT_LT((got[i] - truth[i]).norm().item<double>(), 1e-4 * size)
        << model.layout().slices()[i].name << ", batch " << n << ", loss "
        << static_cast<int>(loss.kind);
  }
}

TEST(FastHessian, IsAutogradsForEveryModel) {
  for (const char* name : {"mlp100", "lenet", "lenet16", "facnn", "cnn32-s", "alex28-s"})
    for (const int64_t channels : {1, 3}) {
      const int64_t side = channels == 1 ? 28 : 32;
      const auto model = testing::made(name, {{channels, side, side}, 10});
      const auto& net = dynamic_cast<const Sequential&>(*model);
      SCOPED_TRACE(name);
      for (const int64_t n : {1, 7})
        expect_hessian(FastNet(net.spec()), net, n, Loss::kCrossEntropy, 11);
      expect_hessian(FastNet(net.spec()), net, 10, Loss::kMultiLabel, 12);
    }
}

/// Sizes that fill no vector, borders, gaps and overlaps of pools, a linear layer without ReLU.
TEST(FastHessian, OddSizesAgreeWithEverySetOfKernels) {
  const SequentialSpec spec{
      {2, 17, 23},
      {{.in = 2, .out = 5, .kernel = 3, .pad = 1, .pool = 2, .pool_stride = 2},
       {.in = 5, .out = 13, .kernel = 2, .pad = 0, .pool = 2, .pool_stride = 1},
       {.in = 13, .out = 41, .kernel = 3, .pad = 2, .pool = 3, .pool_stride = 2},
       {.in = 41, .out = 19, .kernel = 1, .pad = 0, .pool = 2, .pool_stride = 3}},
      {{.in = 38, .out = 11, .relu = false},
       {.in = 11, .out = 9},
       {.in = 9, .out = 7, .relu = false}}};
  const auto sets = testing::tested_kernels();
  const Sequential odd(spec, Init::kTorch);
  for (const auto* set : sets) {
    SCOPED_TRACE(set->name);
    for (const int64_t n : {7, 70})
      expect_hessian(FastNet(spec, *set), odd, n, Loss::kCrossEntropy, 31);
  }
}

TEST(FastHessian, IsOnlyGivenWhereItHolds) {
  const Shape shape{{1, 28, 28}, 10};
  const auto x = testing::batch(shape, 3, 1), y = testing::labels(3, 10, 2);
  const auto norms = testing::made("lenet16-bn", shape);
  const auto at = norms->init(1);
  auto product = at::empty_like(at.w);
  EXPECT_FALSE(dynamic_cast<const SecondOrder&>(*norms).hessian_times(
      at, x.to(at::kFloat), y, Loss::kCrossEntropy, at.w, product));
  const auto plain = testing::made("lenet", shape);
  const auto start = plain->init(1);
  auto wide = at::empty_like(start.w, at::kDouble);
  EXPECT_FALSE(dynamic_cast<const SecondOrder&>(*plain).hessian_times(
      {start.w.to(at::kDouble), start.b}, x, y, Loss::kCrossEntropy, wide, wide));
}

}  // namespace
}  // namespace tessera

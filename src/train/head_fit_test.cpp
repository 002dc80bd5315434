#include "train/head_fit.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <numeric>

#include "base/key.hpp"
#include "tensor/split.hpp"

namespace tessera {
namespace {

ClientData images(int64_t n) {
  auto pool = std::make_shared<Pool>();
  pool->x = at::empty({n, 1, 16, 16}, at::kFloat);
  pool->y = at::arange(n, at::kLong) % 3;
  pool->classes = 3;
  Rng rng(5);
  auto* x = pool->x.data_ptr<float>();
  for (int64_t i = 0; i < pool->x.numel(); ++i) x[i] = static_cast<float>(rng.normal());
  ClientData out;
  out.pool = pool;
  out.train.resize(static_cast<size_t>(n));
  std::iota(out.train.begin(), out.train.end(), 0);
  std::swap(out.train[0], out.train[4]);  // rows are not in the pool's order
  return out;
}

TrainOptions options() {
  TrainOptions out;
  out.batch = 8, out.lr = 0.05, out.momentum = 0.9, out.weight_decay = 0.1;
  return out;
}

/// Through the whole network in evaluation mode, as the contract says.
Weights the_long_way(const Weights& start, const Site& site, int64_t layers, int64_t epochs) {
  const auto gradient = [&](Weights& at, const Examples& batch, uint64_t, Tensor& grad) {
    const auto w = at.w.detach().requires_grad_(true);
    const auto loss = loss_value(Loss::kCrossEntropy,
                                 site.model.forward({w, at.b}, batch.x, Pass{}).logits, batch.y);
    grad.copy_(torch::autograd::grad({loss}, {w})[0]);
    return loss.item<double>();
  };
  return local_sgd(start, site, options(),
                   {.epochs = epochs,
                    .gradient = gradient,
                    .only = Split(site.model.layout(), layers).mask()})
      .weights;
}

class HeadFit : public ::testing::TestWithParam<std::tuple<const char*, int64_t>> {};

TEST_P(HeadFit, IsTrainingThroughTheWholeNetwork) {
  const auto [name, layers] = GetParam();
  const auto model = *make_model(name, {{1, 16, 16}, 3});
  const auto data = images(300);  // more than one chunk of features
  auto start = model->init(1);
  start.b = start.b + 0.5;
  const Site site{*model, data, 2, 42};
  const auto got = fit_head(start, site, options(), layers, 2).weights;
  const auto expected = the_long_way(start, site, layers, 2);
  EXPECT_TRUE(at::allclose(got.w, expected.w, 1e-4, 1e-6));
  const auto moved = got.w.ne(start.w);
  const Split parts(model->layout(), layers);
  EXPECT_FALSE(moved.masked_select(parts.mask().logical_not()).any().item<bool>());
  EXPECT_TRUE(moved.masked_select(parts.mask()).any().item<bool>());
  EXPECT_TRUE(got.b.equal(start.b));  // running statistics stand
}
INSTANTIATE_TEST_SUITE_P(Models, HeadFit,
                         ::testing::Combine(::testing::Values("mlp100", "lenet16-bn"),
                                            ::testing::Values(1, 2)),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param)).substr(0, 5) + "_" +
                                  std::to_string(std::get<1>(one.param));
                         });

TEST(HeadFitEdge, WithoutDataTheHeadStays) {
  const auto model = *make_model("mlp100", {{1, 16, 16}, 3});
  auto data = images(8);
  data.train.clear();
  const auto start = model->init(1);
  EXPECT_TRUE(fit_head(start, {*model, data, 1, 42}, options(), 1, 3).weights.w.equal(start.w));
}

}  // namespace
}  // namespace tessera

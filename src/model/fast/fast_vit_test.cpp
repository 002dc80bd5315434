#include "model/fast/fast_vit.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <thread>

#include "model/fast/kernels_testing.hpp"
#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::distance;

/// Two blocks and odd sizes: 7 tokens, 3 heads, an image that is not square.
VitSpec odd() {
  return {.channels = 2,
          .height = 6,
          .width = 9,
          .patch = 3,
          .dim = 24,
          .depth = 2,
          .heads = 3,
          .head_dim = 8,
          .mlp = 40,
          .classes = 5};
}
VitSpec like_vit_s() {
  return {.channels = 3,
          .height = 32,
          .width = 32,
          .patch = 8,
          .dim = 64,
          .depth = 3,
          .heads = 4,
          .head_dim = 16,
          .mlp = 128,
          .classes = 10};
}
VitSpec with(VitSpec spec, int64_t VitSpec::*member, int64_t value) {
  spec.*member = value;
  return spec;
}

struct Problem {
  VitSpec spec;
  Vit model;
  Weights exact, at;  // float64 and float32, the same numbers
  Tensor x, y;

  Problem(const VitSpec& s, int64_t n, uint64_t key) : spec(s), model(s, Init::kTorch) {
    const Tensor noise = testing::normal({model.layout().numel()}, derive(key, 1));
    at = {model.init(key).w + 0.05 * noise.to(at::kFloat), at::empty({0})};
    exact = {at.w.to(at::kDouble), at::empty({0}, at::kDouble)};
    x = testing::normal({n, s.channels, s.height, s.width}, derive(key, 2)).to(at::kFloat);
    y = testing::labels(n, s.classes, derive(key, 3));
  }
};

/// Loss, logits and the gradient of every layer apart, against autograd in float64.
void expect_vit(const VitSpec& spec, int64_t n, Loss loss, const fast::Kernels& kernels) {
  SCOPED_TRACE(::testing::Message() << kernels.name << ", batch " << n << ", dim " << spec.dim);
  const Problem p(spec, n, derive(7, n));
  const FastVit net(spec, p.model.layout(), kernels);
  const Tensor leaf = p.exact.w.clone().requires_grad_();
  const Tensor logits = p.model.forward({leaf, p.exact.b}, p.x.to(at::kDouble), {}).logits;
  const Tensor value = loss_value(loss, logits, p.y);
  const Tensor want = torch::autograd::grad({value}, {leaf})[0];

  Tensor grad = at::full_like(p.at.w, NAN);
  double got = 0;
  ASSERT_TRUE(
      net.value_and_grad(p.at.w.data_ptr<float>(), p.x, p.y, loss, grad.data_ptr<float>(), got));
  EXPECT_NEAR(got, value.item<double>(), 1e-5 * value.item<double>());
  const auto parts = p.model.layout().views(grad), truth = p.model.layout().views(want);
  for (size_t i = 0; i < parts.size(); ++i)
    EXPECT_LT(distance(parts[i], truth[i]), 1e-5) << p.model.layout().slices()[i].name;

  Tensor predicted = at::full({n, spec.classes}, NAN);
  net.predict(p.at.w.data_ptr<float>(), p.x, predicted.data_ptr<float>());
  EXPECT_LT(distance(predicted, logits.detach()), 1e-5);
}

TEST(FastVit, GradientLossAndLogitsAreAutograds) {
  const auto sets = testing::tested_kernels();
  for (const auto* kernels : sets) {
    expect_vit(like_vit_s(), 37, Loss::kCrossEntropy, *kernels);  // groups of 16, 16 and 5
    expect_vit(like_vit_s(), 1, Loss::kMultiLabel, *kernels);
    expect_vit(odd(), 50, Loss::kMultiLabel, *kernels);
    expect_vit(odd(), 3, Loss::kCrossEntropy, *kernels);
    expect_vit(with(odd(), &VitSpec::depth, 1), 4, Loss::kCrossEntropy, *kernels);
    expect_vit(with(odd(), &VitSpec::width, 12), 4, Loss::kCrossEntropy, *kernels);  // 9 tokens
    expect_vit(with(odd(), &VitSpec::height, 3), 4, Loss::kCrossEntropy, *kernels);  // 4 tokens
    expect_vit(with(odd(), &VitSpec::head_dim, 32), 4, Loss::kCrossEntropy, *kernels);
  }
}

/// Far-off scores and activations: softmax of one token alone, both ends of GELU.
TEST(FastVit, LargeNumbersStayFinite) {
  Problem p(like_vit_s(), 5, 3);
  p.at.w *= 12;
  p.exact.w *= 12;
  const FastVit net(p.spec, p.model.layout());
  Tensor got = at::empty({5, 10});
  net.predict(p.at.w.data_ptr<float>(), p.x, got.data_ptr<float>());
  const Tensor want = p.model.forward(p.exact, p.x.to(at::kDouble), {}).logits;
  EXPECT_LT(distance(got, want), 1e-3);
}

TEST(FastVit, NanIsNotHidden) {
  Problem p(like_vit_s(), 2, 3);
  const FastVit net(p.spec, p.model.layout());
  Tensor got = at::zeros({2, 10});
  p.x[1][0][0][0] = NAN;
  net.predict(p.at.w.data_ptr<float>(), p.x, got.data_ptr<float>());
  EXPECT_TRUE(got[0].isfinite().all().item<bool>());
  EXPECT_TRUE(got[1].isnan().all().item<bool>());
}

TEST(FastVit, SameBitsOnEveryThreadAndAfterOtherWork) {
  const Problem p(like_vit_s(), 20, 3);
  const FastVit net(p.spec, p.model.layout());
  const auto gradient = [&] {
    Tensor grad = at::empty_like(p.at.w);
    double value = 0;
    net.value_and_grad(p.at.w.data_ptr<float>(), p.x, p.y, Loss::kCrossEntropy,
                       grad.data_ptr<float>(), value);
    return grad;
  };
  const Tensor once = gradient();
  const Problem other(odd(), 9, 4);
  other.model.predict(other.at, other.x);
  EXPECT_TRUE(at::equal(gradient(), once));
  Tensor elsewhere;
  std::thread([&] { elsewhere = gradient(); }).join();
  EXPECT_TRUE(at::equal(elsewhere, once));
}

TEST(FastVit, RefusesWhatItCannotDo) {
  const Problem p(like_vit_s(), 2, 3);
  const FastVit net(p.spec, p.model.layout());
  Tensor grad = at::empty_like(p.at.w);
  double value = 0;
  const auto run = [&](const Tensor& x, const Tensor& y) {
    return net.value_and_grad(p.at.w.data_ptr<float>(), x, y, Loss::kCrossEntropy,
                              grad.data_ptr<float>(), value);
  };
  EXPECT_FALSE(run(p.x.to(at::kDouble), p.y));
  EXPECT_FALSE(run(p.x.narrow(0, 0, 1), p.y));
  EXPECT_FALSE(run(p.x.narrow(3, 0, 24), p.y));
  EXPECT_FALSE(run(p.x.narrow(0, 0, 0), p.y.narrow(0, 0, 0)));
  EXPECT_THROW(run(p.x, at::full_like(p.y, 10)), std::out_of_range);
  EXPECT_THROW(net.predict(p.at.w.data_ptr<float>(), p.x.to(at::kDouble), nullptr),
               std::invalid_argument);

  auto dropping = like_vit_s();
  dropping.dropout = 0.1;
  EXPECT_FALSE(FastVit::supports(dropping, false));
  EXPECT_TRUE(FastVit::supports(dropping, true));
  EXPECT_FALSE(FastVit::supports(with(like_vit_s(), &VitSpec::head_dim, 12), true));
  EXPECT_THROW(FastVit(with(like_vit_s(), &VitSpec::mlp, 12), p.model.layout()),
               std::invalid_argument);
}

/// Models the vectors do not fit still predict, and dropout still trains, both by autograd.
TEST(FastVit, VitFallsBackToAutograd) {
  const Vit narrow(with(odd(), &VitSpec::dim, 5), Init::kTorch);
  const Weights at = narrow.init(1);
  const Tensor x = testing::normal({3, 2, 6, 9}, 2).to(at::kFloat);
  EXPECT_TRUE(at::equal(narrow.predict(at, x), narrow.forward(at, x, {}).logits));
  Tensor grad = at::empty_like(at.w);
  double value = 0;
  EXPECT_FALSE(
      narrow.value_and_grad(at, x, testing::labels(3, 5, 1), Loss::kCrossEntropy, grad, value));
  const auto large = testing::made("vit-p", {{3, 32, 32}, 10});
  const Weights there = large->init(1);
  const Tensor images = testing::normal({5, 3, 32, 32}, 2).to(at::kFloat);
  Tensor gradient = at::empty_like(there.w);
  EXPECT_FALSE(large->value_and_grad(there, images, testing::labels(5, 10, 1), Loss::kCrossEntropy,
                                     gradient, value));
  EXPECT_LT(distance(large->predict(there, images), large->forward(there, images, {}).logits),
            1e-5);
}

}  // namespace
}  // namespace tessera

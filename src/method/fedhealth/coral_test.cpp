#include "method/fedhealth/coral.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

namespace tessera {
namespace {

// (1, 0), (3, 2), (2, 4): mean (2, 2); centred (−1, −2), (1, 0), (0, 2).
TEST(Coral, CovarianceAndLossByHand) {
  const auto rows = at::tensor({1.0, 0.0, 3.0, 2.0, 2.0, 4.0}, at::kDouble).view({3, 2});
  const auto expected = at::tensor({1.0, 1.0, 1.0, 4.0}, at::kDouble).view({2, 2});
  EXPECT_TRUE(at::allclose(covariance(rows), expected, 0, 1e-15));
  // Against the identity: (1 + 1 + 9) / (4 · 2²).
  EXPECT_NEAR(coral_loss(at::eye(2, at::kDouble), rows).item<double>(), 11.0 / 16, 1e-15);
  EXPECT_EQ(coral_loss(expected, rows).item<double>(), 0);
}

TEST(Coral, GradientAgreesWithFiniteDifferences) {
  const auto rows = at::linspace(-1, 2, 12, at::kDouble).cos().view({4, 3}).requires_grad_(true);
  const auto source = at::eye(3, at::kDouble) * 0.3 + 0.1;
  const auto slope = torch::autograd::grad({coral_loss(source, rows)}, {rows})[0];
  constexpr double kStep = 1e-6;
  for (int64_t i = 0; i < 12; ++i) {
    auto up = rows.detach().clone(), down = rows.detach().clone();
    up.view(-1)[i] += kStep, down.view(-1)[i] -= kStep;
    const double by =
        (coral_loss(source, up) - coral_loss(source, down)).item<double>() / (2 * kStep);
    EXPECT_NEAR(slope.view(-1)[i].item<double>(), by, 1e-9) << i;
  }
  // The published closed form: (C_T − C_S) (F − mean) / (z² (n − 1)).
  const auto centred = rows.detach() - rows.detach().mean(0, true);
  const auto closed = centred.mm(covariance(rows.detach()) - source) / (9.0 * 3);
  EXPECT_TRUE(at::allclose(slope, closed, 1e-10, 1e-12));
}

ClientData few(int64_t n) {
  auto pool = std::make_shared<Pool>();
  pool->x = at::linspace(-2, 2, n * 6).sin().view({n, 6});
  pool->y = at::arange(n, at::kLong).remainder(3);
  pool->classes = 3;
  ClientData out;
  out.pool = pool;
  for (int64_t i = 0; i < n; ++i) out.train.push_back(i);
  return out;
}

TEST(Coral, FeatureCovarianceGoesOverAllSamples) {
  const auto model = *make_model("mlp100", {{6}, 3});
  const auto w = model->init(1);
  const auto data = few(700);  // more than a chunk
  const auto whole = model->forward(w, data.pool->x, {}).features.to(at::kDouble);
  const auto centred = whole - whole.mean(0);
  EXPECT_TRUE(at::allclose(feature_covariance(*model, w, data),
                           (centred.t().mm(centred) / 699).to(at::kFloat), 1e-4, 1e-6));
}

TEST(Coral, AlignedGradientIsTheSumOfBoth) {
  const auto model = *make_model("mlp100", {{6}, 3});
  auto w = model->init(1);
  w.w = w.w.to(at::kDouble);
  const auto data = few(9);
  const auto batch = data.range(Part::kTrain, 0, 9);
  const auto source = at::eye(100, at::kDouble);
  auto grad = at::empty_like(w.w), plain = at::empty_like(w.w);
  aligned_gradient(*model, w, batch, Loss::kCrossEntropy, 1, source, 50, grad);
  const auto value = [&](const Tensor& at) {
    const auto out = model->forward({at, w.b}, batch.x, {});
    return (loss_value(Loss::kCrossEntropy, out.logits, batch.y) +
            50 * coral_loss(source, out.features))
        .item<double>();
  };
  const auto along = at::linspace(-3, 3, w.w.numel(), at::kDouble).sin();
  const double by = (value(w.w + 1e-8 * along) - value(w.w - 1e-8 * along)) / 2e-8;
  EXPECT_NEAR(at::dot(grad, along).item<double>(), by, 1e-5 * std::abs(by) + 1e-6);
  // A single sample has no covariance.
  const auto one = data.range(Part::kTrain, 0, 1);
  aligned_gradient(*model, w, one, Loss::kCrossEntropy, 1, source, 50, grad);
  aligned_gradient(*model, w, one, Loss::kCrossEntropy, 1, source, 0, plain);
  EXPECT_TRUE(grad.equal(plain));
  EXPECT_TRUE(at::isfinite(grad).all().item<bool>());
}

}  // namespace
}  // namespace tessera

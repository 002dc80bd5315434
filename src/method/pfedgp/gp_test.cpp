#include "method/pfedgp/gp.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "base/key.hpp"
#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::normal;

TEST(Gp, KernelByHand) {
  const Kernel kernel{.scale = 3, .length = 2, .jitter = 0.5};
  const auto z = at::tensor({0.0, 0.0, 3.0, 4.0}, at::kDouble).view({2, 2});
  const auto k = kernel.among(z);
  EXPECT_NEAR(k[0][1].item<double>(), 3 * std::exp(-25.0 / 8), 1e-15);
  EXPECT_NEAR(k[0][0].item<double>(), 3.5, 1e-15);
  EXPECT_NEAR(kernel.between(z, z)[1][1].item<double>(), 3, 1e-15);
}

TEST(Gp, UnitRowsSurviveZeros) {
  const auto raw = at::tensor({3.0F, 4.0F, 0.0F, 0.0F}).view({2, 2}).requires_grad_(true);
  const auto z = unit_rows(raw);
  EXPECT_EQ(z.scalar_type(), at::kDouble);
  EXPECT_NEAR(z[0][1].item<double>(), 0.8, 1e-12);
  EXPECT_EQ(z[1].abs().sum().item<double>(), 0);
  const auto slope = torch::autograd::grad({z.sum()}, {raw})[0];
  EXPECT_TRUE(at::isfinite(slope).all().item<bool>());
}

// Two points, one of each class, e1 and e2: k = 8 exp(−1). The 2×2 systems inverted by hand.
TEST(Gp, DirichletPosteriorOfTwoPointsOnPaper) {
  const auto z = at::eye(2, at::kDouble);
  const auto y = at::tensor({0, 1}, at::kLong);
  const double k = 8 * std::exp(-1), own = 1.01, other = 0.01;
  const double v_own = std::log(1 / own + 1), v_other = std::log(1 / other + 1);
  const double t_own = std::log(own) - v_own / 2, t_other = std::log(other) - v_other / 2;
  const double mean = (t_own + t_other) / 2, above = (t_own - t_other) / 2;
  // Class 0: noise (v_own, v_other), residuals (above, −above).
  const double a = 8.001 + v_own, b = 8.001 + v_other, det = a * b - k * k;
  const double w1 = (b * above + k * above) / det, w2 = (-k * above - a * above) / det;
  // At e1: class 0 by symmetry of the roles, class 1 with the points exchanged.
  const double f0 = mean + 8 * w1 + k * w2, f1 = mean + 8 * w2 + k * w1;
  const double log_p0 = f0 - std::log(std::exp(f0) + std::exp(f1));
  const auto got = dirichlet_gp({}, z, y, 2)(z.narrow(0, 0, 1));
  EXPECT_NEAR(got[0][0].item<double>(), log_p0, 1e-12);
  EXPECT_GT(log_p0, std::log(0.5));
}

// The same posterior by dense inverses for every class, those without samples included.
TEST(Gp, DirichletAgreesWithTheDenseFormula) {
  const Kernel kernel{.scale = 2, .length = 0.7, .jitter = 0.01};
  const auto z = normal({6, 3}, 1), at = normal({4, 3}, 2);
  const auto y = at::tensor({2, 0, 2, 0, 3, 3}, at::kLong);
  std::vector<Tensor> means;
  for (int64_t c = 0; c < 5; ++c) {
    const auto a = (y == c).to(at::kDouble) + 0.01;
    const auto v = (1 / a + 1).log(), t = a.log() - v / 2;
    auto k = at::empty({6, 6}, at::kDouble), ks = at::empty({4, 6}, at::kDouble);
    for (int64_t j = 0; j < 6; ++j) {
      k.select(1, j).copy_(2 * (-(z - z[j]).square().sum(1) / 0.98).exp());
      ks.select(1, j).copy_(2 * (-(at - z[j]).square().sum(1) / 0.98).exp());
    }
    const auto inverse = at::inverse(k + 0.01 * at::eye(6, at::kDouble) + v.diag());
    means.push_back(t.mean() + ks.mv(inverse.mv(t - t.mean())));
  }
  const auto got = dirichlet_gp(kernel, z, y, 5)(at);
  EXPECT_TRUE(at::allclose(got, at::log_softmax(at::stack(means, 1), 1), 1e-9, 1e-10));
}

TEST(Gp, GradientAgreesWithFiniteDifferences) {
  const auto y = at::tensor({0, 1, 2, 1, 0}, at::kLong), asked = at::tensor({1, 2, 0}, at::kLong);
  const auto loss = [&](const Tensor& z) {  // five points known, three asked about
    return at::nll_loss(dirichlet_gp({}, z.narrow(0, 0, 5), y, 4)(z.narrow(0, 5, 3)), asked);
  };
  const auto z = normal({8, 2}, 3).requires_grad_(true);
  const auto slope = torch::autograd::grad({loss(z)}, {z})[0];
  constexpr double kStep = 1e-6;
  for (int64_t i = 0; i < 16; ++i) {
    auto up = z.detach().clone(), down = z.detach().clone();
    up.view(-1)[i] += kStep, down.view(-1)[i] -= kStep;
    const double by = (loss(up) - loss(down)).item<double>() / (2 * kStep);
    EXPECT_NEAR(slope.view(-1)[i].item<double>(), by, 1e-7 + 1e-6 * std::abs(by)) << i;
  }
  EXPECT_GT(slope.narrow(0, 0, 5).norm().item<double>(), 1e-3) << "known points matter too";
}

TEST(Gp, OneClassIsPredictedAndTeachesNothing) {
  const auto z = normal({4, 2}, 5).requires_grad_(true);
  const auto y = at::full({3}, 1, at::kLong);
  const auto log_p = dirichlet_gp({}, z.narrow(0, 0, 3), y, 3)(z.narrow(0, 3, 1));
  EXPECT_GT(log_p[0][1].item<double>(), std::log(0.99));
  const auto slope = torch::autograd::grad({log_p[0][1]}, {z})[0];
  EXPECT_TRUE(at::isfinite(slope).all().item<bool>());
}

}  // namespace
}  // namespace tessera

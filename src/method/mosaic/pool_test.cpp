#include "method/mosaic/pool.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/key.hpp"

namespace tessera {
namespace {

/// Three experts, nine samples, four classes.
Tensor pool_logits() {
  auto out = at::empty({3, 9, 4}, at::kDouble);
  Rng rng(3);
  auto* z = out.data_ptr<double>();
  for (int64_t i = 0; i < out.numel(); ++i) z[i] = 2 * rng.normal();
  return out;
}
Tensor pool_labels() { return at::tensor({0, 1, 2, 3, 0, 1, 2, 3, 0}, at::kLong); }
Tensor doubles(std::vector<double> values) { return at::tensor(values, at::kDouble); }

/// The pool's loss as it is written in the documentation, number by number.
double loss_by_hand(const Tensor& logits, const Tensor& y, const Tensor& beta) {
  const auto z = logits.contiguous();
  const auto n = z.size(1), classes = z.size(2);
  const double* at = z.data_ptr<double>();
  double loss = 0;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> score(static_cast<size_t>(classes));
    for (int64_t e = 0; e < z.size(0); ++e) {
      const double* own = at + (e * n + i) * classes;
      double total = 0;
      for (int64_t c = 0; c < classes; ++c) total += std::exp(own[c]);
      for (int64_t c = 0; c < classes; ++c) {
        const double p = 0.999999 * std::exp(own[c]) / total + 1e-6 / static_cast<double>(classes);
        score[static_cast<size_t>(c)] += beta.data_ptr<double>()[e] * std::log(p);
      }
    }
    double total = 0;
    for (const double s : score) total += std::exp(s);
    loss += std::log(total) - score[static_cast<size_t>(y.data_ptr<int64_t>()[i])];
  }
  return loss;
}

const Tensor kCold = at::ones({3}, at::kDouble);

TEST(Pool, AllWeightOnOneExpertIsThatExpert) {
  const auto z = pool_logits();
  for (int64_t e = 0; e < 3; ++e) {
    const auto beta = at::one_hot(at::tensor(e), 3).to(at::kDouble);
    const auto shares = pooled_log_shares(expert_log_shares(z, doubles({1, 2, 0.5})), beta).exp();
    const auto alone = at::softmax(z[e] / std::vector{1.0, 2.0, 0.5}[static_cast<size_t>(e)], 1);
    EXPECT_LT((shares - alone).abs().max().item<double>(), 1e-6);
  }
}

TEST(Pool, EqualWeightsAreAGeometricMean) {
  const auto z = pool_logits();
  const auto even = at::full({3}, 1.0 / 3, at::kDouble);
  const auto shares = pooled_log_shares(expert_log_shares(z, kCold), even).exp();
  const auto product = (0.999999 * at::softmax(z, 2) + 0.25e-6).prod(0).pow(1.0 / 3);
  EXPECT_LT((shares - product / product.sum(1, true)).abs().max().item<double>(), 1e-12);
}

TEST(Pool, ExpertsThatAgreeAreWhatTheySay) {
  const auto z = pool_logits()[1].expand({3, 9, 4});
  const auto shares = pooled_log_shares(expert_log_shares(z, kCold), doubles({0.7, -0.2, 0.5}));
  EXPECT_LT((shares.exp() - at::softmax(z[0], 1)).abs().max().item<double>(), 1e-6);
}

TEST(Pool, NoExpertForbidsAClass) {
  const auto z = at::tensor({0.0, 800.0}, at::kDouble).view({1, 1, 2});
  const auto said = expert_log_shares(z, at::ones({1}, at::kDouble));
  EXPECT_NEAR(said[0][0][0].item<double>(), std::log(0.5e-6), 1e-9);
}

TEST(Pool, SlopeAndCurvatureAreThoseOfTheLoss) {
  const auto z = pool_logits();
  const auto y = pool_labels(), at_beta = doubles({0.4, 0.9, -0.3});
  const auto slope = pool_slope(expert_log_shares(z, kCold), y, at_beta);
  EXPECT_NEAR(slope.loss, loss_by_hand(z, y, at_beta), 1e-10);
  const auto moved = [&](int64_t a, double da, int64_t b, double db) {
    auto beta = at_beta.clone();
    beta[a] += da, beta[b] += db;
    return loss_by_hand(z, y, beta);
  };
  constexpr double kStep = 1e-4;
  for (int64_t e = 0; e < 3; ++e) {
    const double first = (moved(e, kStep, 0, 0) - moved(e, -kStep, 0, 0)) / (2 * kStep);
    EXPECT_NEAR(slope.gradient[e].item<double>(), first, 1e-6);
    for (int64_t f = 0; f < 3; ++f) {
      const double second = (moved(e, kStep, f, kStep) - moved(e, kStep, f, -kStep) -
                             moved(e, -kStep, f, kStep) + moved(e, -kStep, f, -kStep)) /
                            (4 * kStep * kStep);
      EXPECT_NEAR(slope.hessian[e][f].item<double>(), second, 1e-5);
    }
  }
}

/// Where loss + ridge is least, by trying points ever closer around the best one so far.
std::array<double, 2> searched(const Tensor& z, const Tensor& y) {
  std::array<double, 2> best{0.5, 0.5};
  double least = INFINITY;
  for (double width = 2; width > 1e-6; width /= 3) {
    const auto centre = best;
    for (int i = -4; i <= 4; ++i)
      for (int j = -4; j <= 4; ++j) {
        const double a = centre[0] + width * i / 4, b = centre[1] + width * j / 4;
        const double value =
            loss_by_hand(z, y, doubles({a, b})) + (std::pow(a - 0.5, 2) + std::pow(b - 0.5, 2)) / 2;
        if (value < least) least = value, best = {a, b};
      }
  }
  return best;
}

TEST(Pool, NewtonStepsEndWhereASearchDoes) {
  const auto z = pool_logits().slice(0, 0, 2);
  // Labels that the first expert mostly knows.
  const auto y = z[0].argmax(1).clone();
  y[0] = (y[0] + 1) % 4;
  const auto shares = expert_log_shares(z, at::ones({2}, at::kDouble));
  auto fit = first_fit(2);
  for (int step = 0; step < 10; ++step) fit = newton_step(fit, pool_slope(shares, y, fit.beta), 0);
  const auto best = searched(z, y);
  EXPECT_NEAR(fit.beta[0].item<double>(), best[0], 1e-4);
  EXPECT_NEAR(fit.beta[1].item<double>(), best[1], 1e-4);
  EXPECT_GT(best[0], 0.6) << "and not where it began";
}

// One expert: beta = 1, gradient 2, curvature 4: (4 · 1 − 2 + 1) / (4 + 1) = 0.6. Then gradient −1
// and curvature 2 at 0.6, the first half forgotten: (½ 2 + 2 · 0.6 + 1 + 1) / (½ 4 + 2 + 1) = 0.84.
TEST(Pool, EarlierCohortsCountAsFarAsTheyAreRemembered) {
  const auto one = [](double value) { return at::full({1}, value, at::kDouble); };
  auto fit = newton_step(first_fit(1), {0, one(2), one(4).view({1, 1})}, 0.5);
  EXPECT_NEAR(fit.beta.item<double>(), 0.6, 1e-12);
  fit = newton_step(fit, {0, one(-1), one(2).view({1, 1})}, 0.5);
  EXPECT_NEAR(fit.beta.item<double>(), 0.84, 1e-12);
}

TEST(Pool, NoStepIsLongerThanOne) {
  const PoolSlope steep{0, doubles({30, -40}), at::zeros({2, 2}, at::kDouble)};
  const auto beta = newton_step(first_fit(2), steep, 0).beta;
  EXPECT_NEAR(beta[0].item<double>(), 0.5 - 0.6, 1e-12);
  EXPECT_NEAR(beta[1].item<double>(), 0.5 + 0.8, 1e-12);
}

// Three of four samples are of class 0 and the logits are (4 log 3, 0): at temperature 4 the expert
// says 3/4, which is right. The second expert says so at once.
TEST(Pool, TheTemperatureMakesAnExpertAsSureAsItIsRight) {
  const double sure = std::log(3.0);
  const auto z =
      at::stack({doubles({4 * sure, 0}).expand({4, 2}), doubles({sure, 0}).expand({4, 2})});
  const auto losses = temperature_losses(z, at::tensor({0, 0, 1, 0}, at::kLong));
  const auto best = best_temperatures(losses);
  EXPECT_NEAR(best[0].item<double>(), 4, 1e-12);
  EXPECT_EQ(best[1].item<double>(), 1);
  const double right = 3 * std::log(4.0 / 3) + std::log(4.0);
  EXPECT_NEAR(losses[0].min().item<double>(), right, 1e-4);
}

TEST(Pool, WithoutSamplesTheTemperatureIsOne) {
  const auto losses = temperature_losses(at::empty({2, 0, 3}), at::empty({0}, at::kLong));
  EXPECT_TRUE(losses.eq(0).all().item<bool>());
  EXPECT_TRUE(best_temperatures(losses).equal(at::ones({2}, at::kDouble)));
}

TEST(Pool, WhoIsThereSharesTheWeightsOfWhoIsNot) {
  const auto there = at::tensor({1, 0, 1}).to(at::kBool);
  EXPECT_TRUE(
      at::allclose(without_missing(doubles({0.2, 0.5, 0.6}), there), doubles({0.325, 0, 0.975})));
  EXPECT_TRUE(
      at::allclose(without_missing(doubles({0.2, 1, -0.3}), there), doubles({0.5, 0, 0.5})));
  const auto beta = doubles({0.2, 0.5, 0.6});
  EXPECT_TRUE(without_missing(beta, at::ones({3}, at::kBool)).equal(beta));
}

}  // namespace
}  // namespace tessera

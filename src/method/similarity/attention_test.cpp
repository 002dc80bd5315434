#include "method/similarity/attention.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

// Distances of models at 0, 1 and 3 on a line: 1, 9 and 4.
Tensor line() {
  return at::tensor({0.0, 1.0, 9.0, 1.0, 0.0, 4.0, 9.0, 4.0, 0.0}, at::kDouble).view({3, 3});
}
std::vector<Tensor> models(const std::vector<float>& places) {
  std::vector<Tensor> out;
  for (const float place : places) out.push_back(at::tensor({place, 5.0F}));
  return out;
}

TEST(Attention, SigmaIsTheMedianOverPairs) {
  const auto fitted = fit_attraction(line(), 0, 0);
  EXPECT_EQ(fitted.sigma, 4);
  // The one in the middle has the most of others: 0.9.
  EXPECT_NEAR(fitted.alpha(), 4 * 0.9 / (std::exp(-0.25) + std::exp(-1)), 1e-12);
  EXPECT_EQ(fit_attraction(line(), 7, 0).sigma, 7);
}

TEST(Attention, AlphaIsTakenUnlessOthersWouldGetTooMuch) {
  EXPECT_NEAR(fit_attraction(line(), 2, 0.5).alpha(), 0.5, 1e-12);
  EXPECT_NEAR(fit_attraction(line(), 0, 100).alpha(), fit_attraction(line(), 0, 0).alpha(), 1e-12);
}

TEST(Attention, NothingToFit) {
  EXPECT_EQ(Attraction{}.alpha(), 0);
  EXPECT_EQ(fit_attraction(at::zeros({0, 0}, at::kDouble), 0, 0).sigma, 0);
  EXPECT_EQ(fit_attraction(at::zeros({1, 1}, at::kDouble), 3, 1).sigma, 0);
  EXPECT_EQ(fit_attraction(at::zeros({3, 3}, at::kDouble), 0, 0).sigma, 0);
  EXPECT_EQ(attracted({}, line()).sum().item<double>(), 0);
}

TEST(Attention, MostlyEqualModelsHaveASigmaToo) {
  auto distances = at::zeros({4, 4}, at::kDouble);
  distances[3].fill_(6), distances.select(1, 3).fill_(6), distances[3][3] = 0;
  EXPECT_EQ(fit_attraction(distances, 0, 0).sigma, 3);  // the mean over pairs
}

// exp(−1e6) is 0; what matters is who is nearer.
TEST(Attention, SharesOfFarModelsDoNotUnderflow) {
  const auto fitted = fit_attraction(line() * 1e6, 1, 0);
  auto distances = line() * 1e6;
  distances.diagonal().fill_(INFINITY);
  const auto shares = attracted(fitted, distances);
  EXPECT_NEAR(shares[0][1].item<double>(), 0.9, 1e-9);
  EXPECT_EQ(fitted.alpha(), INFINITY);
}

TEST(Attention, SharesOfARowAreCappedTogether) {
  const Attraction strong{1, std::log(10)};
  const auto shares = attracted(strong, at::tensor({1.0, 2.0, INFINITY}, at::kDouble));
  EXPECT_NEAR(shares.sum().item<double>(), 0.9, 1e-12);
  EXPECT_NEAR(shares[0].item<double>() / shares[1].item<double>(), std::exp(1), 1e-12);
  EXPECT_EQ(shares[2].item<double>(), 0);
}

TEST(Attention, SoftmaxOfCosines) {
  const auto shares = attended(at::tensor({0.5, -0.5, -INFINITY}, at::kDouble), 0.2, 3);
  EXPECT_NEAR(shares[0].item<double>(), 0.8 / (1 + std::exp(-3)), 1e-12);
  EXPECT_NEAR(shares.sum().item<double>(), 0.8, 1e-12);
  EXPECT_EQ(shares[2].item<double>(), 0);
  const auto flat = attended(at::tensor({0.5, -0.5, -INFINITY}, at::kDouble), 0.2, 0);
  EXPECT_TRUE(flat.equal(at::tensor({0.4, 0.4, 0.0}, at::kDouble)));
  EXPECT_EQ(attended(at::full({1, 1}, -INFINITY, at::kDouble), 0.2, 3).item<double>(), 0);
}

TEST(Attention, RowsAreMixtures) {
  for (const bool exact : {true, false})
    for (const auto& places : {std::vector<float>{}, {1}, {1, 4}, {0, 1, 3}, {2, 2, 2}}) {
      const auto all = attention_among(models(places), {.exact = exact});
      const auto n = static_cast<int64_t>(places.size());
      ASSERT_EQ(all.shares.sizes(), (std::vector<int64_t>{n, n}));
      EXPECT_TRUE(at::allclose(all.shares.sum(1), at::ones({n}, at::kDouble), 0, 1e-12));
      EXPECT_TRUE((all.shares >= 0).all().item<bool>());
    }
}

// A further model gets what it would get as one of them, by the scale of those.
TEST(Attention, AFurtherModelIsTreatedLikeTheOthers) {
  const auto all = models({0, 1, 3});
  const auto centre = at::tensor({4.0F / 3, 5.0F});
  const AttentionRule rule;
  const auto fitted = attention_among(all, rule).attraction;
  const auto shares = attention_of(at::tensor({2.0F, 5.0F}), all, centre, fitted, rule);
  ASSERT_EQ(shares.size(), 4U);
  const double scale = fitted.alpha() / fitted.sigma;
  const double near = scale * std::exp(-0.25), far = scale * std::exp(-1);
  const double cut = 0.9 / std::max(0.9, far + 2 * near);
  EXPECT_NEAR(shares[0], cut * far, 1e-6);
  EXPECT_NEAR(shares[1], cut * near, 1e-6);
  EXPECT_NEAR(shares[2], cut * near, 1e-6);
  EXPECT_NEAR(shares[3], 1 - cut * (far + 2 * near), 1e-6);

  const AttentionRule by_cosine{.exact = false, .own = 0.5, .sharpness = 1};
  const auto likes = attention_of(at::tensor({2.0F, 5.0F}), all, centre, {}, by_cosine);
  const double away = std::exp(-2);  // −1 against 1
  EXPECT_NEAR(likes[0], 0.5 * away / (1 + 2 * away), 1e-6);
  EXPECT_NEAR(likes[2], 0.5 / (1 + 2 * away), 1e-6);
  EXPECT_NEAR(likes[3], 0.5, 1e-6);
}

}  // namespace
}  // namespace tessera

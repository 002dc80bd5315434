#include "method/mosaic/moments.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/key.hpp"

namespace tessera {
namespace {

/// Features of n samples, and labels 0, 1, 0, 1, …; class 2 has none.
Examples some_features(int64_t n, int64_t p, uint64_t key) {
  Examples out{at::empty({n, p}), at::arange(n, at::kLong) % 2};
  Rng rng(key);
  auto* x = out.x.data_ptr<float>();
  for (int64_t i = 0; i < out.x.numel(); ++i) x[i] = static_cast<float>(rng.normal() + 0.5);
  return out;
}

/// Class means and within-class covariance of all rows, straight from the definition.
std::pair<Tensor, Tensor> moments_by_hand(const Examples& all) {
  const auto x = all.x.to(at::kDouble);
  auto means = x.mean(0).expand({3, -1}).clone();
  auto within = at::zeros({x.size(1), x.size(1)}, at::kDouble);
  for (int64_t c = 0; c < 2; ++c) {
    const auto rows = x.index_select(0, all.y.eq(c).nonzero().flatten());
    means[c] = rows.mean(0);
    const auto apart = rows - rows.mean(0);
    within += apart.t().mm(apart);
  }
  return {means, within / static_cast<double>(x.size(0))};
}

TEST(FeatureMoments, SumsOfClientsSayWhatAllSamplesSay) {
  const auto a = some_features(7, 4, 1), b = some_features(12, 4, 2);
  const Examples all{at::cat({a.x, b.x}), at::cat({a.y, b.y})};
  const auto [means, within] = moments_by_hand(all);
  for (const bool diagonal : {false, true}) {
    const MomentShape shape{3, 4, diagonal};
    const auto sums = moment_sums(a, shape) + moment_sums(b, shape);
    ASSERT_EQ(sums.numel(), shape.numel());
    ASSERT_EQ(shape.numel(), 3 + 12 + (diagonal ? 4 : 10));
    const auto found = moments_of(sums, shape);
    EXPECT_NEAR(found.pi[0].item<double>(), 10.0 / 19, 1e-6);
    EXPECT_EQ(found.pi[2].item<double>(), 0);
    EXPECT_TRUE(at::allclose(found.means.to(at::kDouble), means, 1e-5, 1e-6));
    const auto wanted = diagonal ? within.diagonal() : within;
    EXPECT_TRUE(at::allclose(found.within.to(at::kDouble), wanted, 1e-5, 1e-6));
  }
}

TEST(FeatureMoments, NobodysSumsSayNothing) {
  const MomentShape shape{3, 2, false};
  const auto found = moments_of(at::zeros({shape.numel()}), shape);
  EXPECT_TRUE(found.within.equal(at::eye(2)));
  EXPECT_TRUE(at::allclose(found.pi, at::full({3}, 1.0F / 3)));
}

TEST(FeatureMoments, CountsAloneWithoutFeatures) {
  const MomentShape shape{3, 0, false};
  const auto sums = moment_sums({at::empty({5, 0}), at::tensor({0, 0, 2, 1, 0}, at::kLong)}, shape);
  EXPECT_TRUE(sums.equal(at::tensor({3, 1, 1}, at::kDouble)));
  EXPECT_EQ(moments_of(sums, shape).pi[0].item<float>(), 0.6F);
}

/// The score of docs/methods.md §12.2, with an explicit inverse.
double score_by_hand(const FeatureMoments& all, const ClassSums& own, double k, const Tensor& phi,
                     int64_t c) {
  const auto w =
      all.within.dim() == 2 ? all.within.to(at::kDouble) : all.within.to(at::kDouble).diag();
  const auto p = static_cast<double>(phi.size(0));
  const auto ridged = 0.9 * w + 0.1 * w.trace() / p * at::eye(phi.size(0), at::kDouble);
  const double n_c = own.counts[c].item<double>(), n = own.counts.sum().item<double>();
  const auto m = (own.sums[c] + k * all.means[c].to(at::kDouble)) / (n_c + k);
  const auto direction = at::inverse(ridged).mv(m);
  const double share = (n_c + 0.5 * all.pi[c].item<double>()) / (n + 0.5);
  return direction.dot(phi.to(at::kDouble)).item<double>() - direction.dot(m).item<double>() / 2 +
         std::log(share);
}

TEST(Discriminant, ScoresAreThoseOfTheFormula) {
  const auto others = some_features(40, 5, 3), own = some_features(9, 5, 4);
  for (const bool diagonal : {false, true}) {
    const MomentShape shape{3, 5, diagonal};
    auto all = moments_of(moment_sums(others, shape) + moment_sums(own, shape), shape);
    all.pi = at::tensor({0.5F, 0.3F, 0.2F});
    const auto sums = class_sums(own, shape);
    const auto scores = discriminant(all, sums, 20).scores(own.x);
    for (int64_t i = 0; i < 9; ++i)
      for (int64_t c = 0; c < 3; ++c)
        EXPECT_NEAR(scores[i][c].item<double>(), score_by_hand(all, sums, 20, own.x[i], c), 1e-8);
  }
}

TEST(Discriminant, OneClassIsEnough) {
  const MomentShape shape{3, 5, false};
  const Examples own{some_features(6, 5, 5).x, at::ones({6}, at::kLong)};
  const auto alone = moments_of(moment_sums(own, shape), shape);
  const auto scores = discriminant(alone, class_sums(own, shape), 20).scores(own.x);
  EXPECT_TRUE(at::isfinite(scores).all().item<bool>());
  EXPECT_TRUE(scores.argmax(1).eq(1).all().item<bool>());
}

TEST(Discriminant, FeaturesThatNeverVaryLeaveTheFrequencies) {
  const MomentShape shape{2, 3, false};
  const Examples own{at::zeros({4, 3}), at::tensor({0, 0, 0, 1}, at::kLong)};
  const auto all = moments_of(moment_sums(own, shape), shape);
  const auto scores = discriminant(all, class_sums(own, shape), 20).scores(own.x);
  EXPECT_NEAR(scores[0][0].item<double>(), std::log((3 + 0.5 * 0.75) / 4.5), 1e-7);
}

// A covariance that is none has a negative eigenvalue: its diagonal must do.
TEST(Discriminant, RoundingThatBreaksACovarianceCostsItsOffDiagonal) {
  const FeatureMoments broken{at::tensor({0.5F, 0.5F}),
                              at::tensor({1.0F, 0.0F, 0.0F, 2.0F}).view({2, 2}),
                              at::tensor({1.0F, 5.0F, 5.0F, 1.0F}).view({2, 2})};
  const FeatureMoments plain{broken.pi, broken.means, at::ones({2})};
  const ClassSums nobody{at::zeros({2}, at::kDouble), at::zeros({2, 2}, at::kDouble)};
  EXPECT_TRUE(
      at::allclose(discriminant(broken, nobody, 20).slope, discriminant(plain, nobody, 20).slope));
}

}  // namespace
}  // namespace tessera

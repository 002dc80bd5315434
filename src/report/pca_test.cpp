#include "report/pca.hpp"

#include <gmock/gmock.h>

#include <cmath>

namespace tessera {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Pointwise;
using Points = std::vector<std::vector<double>>;

auto near(std::vector<double> values) { return Pointwise(testing::DoubleNear(1e-12), values); }

TEST(SymmetricEigen, OfAMatrixWorkedOutByHand) {
  // det([2−λ, 1; 1, 2−λ]) = 0 at 3 and 1; (1, ±1)/√2.
  const auto eigen = symmetric_eigen({{2, 1}, {1, 2}});
  EXPECT_THAT(eigen.values, near({3, 1}));
  const double r = std::sqrt(0.5);
  EXPECT_NEAR(std::abs(eigen.vectors[0][0]), r, 1e-12);
  EXPECT_NEAR(eigen.vectors[0][0], eigen.vectors[0][1], 1e-12);
  EXPECT_NEAR(eigen.vectors[1][0], -eigen.vectors[1][1], 1e-12);
}

TEST(SymmetricEigen, VectorsSatisfyTheirEquation) {
  const Points m{{4, 1, -2, 0.5}, {1, 3, 0, 2}, {-2, 0, -1, 1}, {0.5, 2, 1, 6}};
  const auto eigen = symmetric_eigen(m);
  EXPECT_TRUE(std::is_sorted(eigen.values.rbegin(), eigen.values.rend()));
  for (size_t k = 0; k < 4; ++k)
    for (size_t i = 0; i < 4; ++i) {
      double product = 0;
      for (size_t j = 0; j < 4; ++j) product += m[i][j] * eigen.vectors[k][j];
      EXPECT_NEAR(product, eigen.values[k] * eigen.vectors[k][i], 1e-10);
    }
}

TEST(SymmetricEigen, ZeroStaysZero) {
  EXPECT_THAT(symmetric_eigen({{0, 0}, {0, 0}}).values, ElementsAre(0, 0));
}

TEST(Pca, PointsOnALineHaveOneDirection) {
  // (1, 2, −2)/3 · t: the largest entry is 2/3, the first of two equal in size.
  Points points;
  for (const double t : {-3.0, 0.0, 6.0}) points.push_back({1 + t, 5 + 2 * t, 7 - 2 * t});
  const auto pca = principal_components(points, 2);
  EXPECT_THAT(pca.mean, near({2, 7, 5}));
  EXPECT_THAT(pca.axes[0], near({1 / 3.0, 2 / 3.0, -2 / 3.0}));
  EXPECT_THAT(pca.axes[1], Each(0.0));
  EXPECT_THAT(pca.share, near({1, 0}));
  EXPECT_THAT(pca.project(points[0]), near({-12, 0}));
  EXPECT_THAT(pca.project(points[2]), near({15, 0}));
}

TEST(Pca, OfAKnownCovariance) {
  // (±2, ±2) and (±1, ∓1): variance 16 along (1, 1)/√2, 4 along (1, −1)/√2.
  const auto pca = principal_components({{2, 2}, {-2, -2}, {1, -1}, {-1, 1}}, 2);
  const double r = std::sqrt(0.5);
  EXPECT_THAT(pca.axes[0], near({r, r}));
  EXPECT_THAT(pca.axes[1], near({r, -r}));
  EXPECT_THAT(pca.share, near({0.8, 0.2}));
  EXPECT_THAT(pca.project({2, 2}), near({4 * r, 0}));
}

TEST(Pca, FewPointsInManyDimensionsGiveTheSameAsMany) {
  // The same four points, once as they are and once with zeros added: the Gram matrix' way.
  Points points{{2, 2}, {-2, -2}, {1, -1}, {-1, 1}}, padded = points;
  for (auto& point : padded) point.resize(9, 0);
  const auto plain = principal_components(points, 2), wide = principal_components(padded, 2);
  EXPECT_THAT(wide.share, near(plain.share));
  for (size_t i = 0; i < 4; ++i)
    EXPECT_THAT(wide.project(padded[i]), near(plain.project(points[i])));
}

TEST(Pca, DegenerateInputsAreFinite) {
  const auto one = principal_components({{3, 4}}, 2);
  EXPECT_THAT(one.project({3, 4}), ElementsAre(0, 0));
  const auto same = principal_components({{1}, {1}, {1}}, 2);
  EXPECT_THAT(same.share, ElementsAre(0, 0));
  // A square: both directions equal.
  const auto round = principal_components({{1, 0}, {-1, 0}, {0, 1}, {0, -1}}, 2);
  EXPECT_THAT(round.share, near({0.5, 0.5}));
}

}  // namespace
}  // namespace tessera

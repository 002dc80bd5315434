#include "tensor/gram.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/key.hpp"

namespace tessera {
namespace {

std::vector<Tensor> random_rows(int64_t n, int64_t d) {
  std::vector<Tensor> rows;
  Rng rng(3);
  for (int64_t i = 0; i < n; ++i) {
    auto row = at::empty({d}, at::kFloat);
    for (int64_t k = 0; k < d; ++k) row.data_ptr<float>()[k] = static_cast<float>(rng.normal());
    rows.push_back(row);
  }
  return rows;
}

TEST(Gram, EqualsDotProductsAcrossPieces) {
  const auto rows = random_rows(5, 2500);  // two whole pieces and a rest
  const auto g = gram(rows);
  EXPECT_TRUE(g.equal(g.t()));
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 5; ++j) {
      const double exact = rows[i].to(at::kDouble).dot(rows[j].to(at::kDouble)).item<double>();
      EXPECT_NEAR(g[i][j].item<double>(), exact, 1e-7 * 2500);
    }
}

// More rows than a tile: the triangle that is not computed must be that of the one that is.
TEST(Gram, TilesCoverTheWholeMatrix) {
  const auto rows = random_rows(300, 40);
  const auto w = at::stack(rows).to(at::kDouble);
  const auto g = gram(rows);
  EXPECT_TRUE(g.equal(g.t()));
  EXPECT_LT(g.sub(at::mm(w, w.t())).abs().max().item<double>(), 1e-4);
}

TEST(Gram, SeenFromAnOrigin) {
  const auto rows = random_rows(4, 1500);
  const auto origin = random_rows(5, 1500).back();
  std::vector<Tensor> moved;
  for (const auto& row : rows) moved.push_back(row - origin);
  EXPECT_TRUE(gram(rows, origin).equal(gram(moved)));
  EXPECT_FALSE(gram(rows, origin).equal(gram(rows)));
  EXPECT_THROW(gram(rows, at::zeros({3})), std::invalid_argument);
}

TEST(Gram, CosinesByHand) {
  const std::vector<Tensor> rows{at::tensor({2.F, 0.F}), at::tensor({3.F, 3.F}),
                                 at::tensor({-1.F, 0.F}), at::tensor({0.F, 0.F})};
  const auto c = cosines(gram(rows));
  EXPECT_NEAR(c[0][1].item<double>(), std::sqrt(0.5), 1e-12);
  EXPECT_EQ(c[0][2].item<double>(), -1);
  EXPECT_EQ(c[0][3].item<double>(), 0);  // 0/0 elsewhere
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(c[i][i].item<double>(), 1);
}

// Long rows whose norms round: s_ii must be 1 and nothing may exceed it.
TEST(Gram, CosinesStayWithinTheirBounds) {
  auto rows = random_rows(3, 5000);
  rows.push_back(rows[0] * 3);
  const auto c = cosines(gram(rows));
  EXPECT_LE(c.max().item<double>(), 1);
  EXPECT_NEAR(c[0][3].item<double>(), 1, 1e-7);
  EXPECT_TRUE(c.diagonal().equal(at::ones({4}, at::kDouble)));
}

TEST(Gram, CosinesToOneAreARowOfThoseToAll) {
  const auto rows = random_rows(6, 2500);
  const auto origin = rows.back() * 0.5;
  const auto all = cosines(gram(rows, origin));
  const auto one = cosines(rows[2], rows, origin);
  EXPECT_LT(one.sub(all[2]).abs().max().item<double>(), 1e-6);
  EXPECT_EQ(cosines(at::zeros({2500}), rows)[0].item<double>(), 0);
  EXPECT_EQ(cosines(rows[0], {}).numel(), 0);
}

TEST(Gram, DistancesByHand) {
  const std::vector<Tensor> rows{at::tensor({0.F, 3.F}), at::tensor({4.F, 0.F})};
  const auto d = squared_distances(gram(rows));
  EXPECT_EQ(d[0][1].item<double>(), 25);
  EXPECT_EQ(d[0][0].item<double>(), 0);
  EXPECT_TRUE(squared_distances(rows[1], rows).equal(d[1]));
  EXPECT_EQ(squared_distances(rows[1], {}).numel(), 0);
}

TEST(Gram, UnequalRowsAreRefused) {
  EXPECT_THROW(gram(std::vector<Tensor>{at::zeros({2}), at::zeros({3})}), std::invalid_argument);
}

}  // namespace
}  // namespace tessera

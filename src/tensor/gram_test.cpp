#include "tensor/gram.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

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

TEST(Gram, DistancesByHand) {
  const std::vector<Tensor> rows{at::tensor({0.F, 3.F}), at::tensor({4.F, 0.F})};
  const auto d = squared_distances(gram(rows));
  EXPECT_EQ(d[0][1].item<double>(), 25);
  EXPECT_EQ(d[0][0].item<double>(), 0);
}

TEST(Gram, UnequalRowsAreRefused) {
  EXPECT_THROW(gram(std::vector<Tensor>{at::zeros({2}), at::zeros({3})}), std::invalid_argument);
}

}  // namespace
}  // namespace tessera

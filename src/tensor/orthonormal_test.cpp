#include "tensor/orthonormal.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

bool is_identity(const Tensor& product) {
  return at::allclose(product, at::eye(product.size(0)), 0, 1e-6);
}

TEST(Orthonormal, RowsOrColumnsWhicheverAreFewer) {
  const auto wide = orthonormal(3, 50, 1), tall = orthonormal(50, 3, 1),
             square = orthonormal(4, 4, 1);
  EXPECT_TRUE(wide.sizes().equals({3, 50}));
  EXPECT_TRUE(is_identity(wide.matmul(wide.t())));
  EXPECT_TRUE(tall.sizes().equals({50, 3}));
  EXPECT_TRUE(is_identity(tall.t().matmul(tall)));
  EXPECT_TRUE(is_identity(square.matmul(square.t())));
}

TEST(Orthonormal, IsAFunctionOfTheKey) {
  EXPECT_TRUE(orthonormal(3, 5, 1).equal(orthonormal(3, 5, 1)));
  EXPECT_FALSE(at::allclose(orthonormal(3, 5, 1), orthonormal(3, 5, 2)));
}

TEST(Orthonormal, ByHand) {
  std::vector<double> rows{3, 4, 1, 0};  // (0.6, 0.8), then (1, 0) − 0.6 (0.6, 0.8), normalised
  orthonormalize(rows, 2);
  EXPECT_NEAR(rows[0], 0.6, 1e-15);
  EXPECT_NEAR(rows[1], 0.8, 1e-15);
  EXPECT_NEAR(rows[2], 0.8, 1e-15);
  EXPECT_NEAR(rows[3], -0.6, 1e-15);
}

}  // namespace
}  // namespace tessera

#include "tensor/quantile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/key.hpp"

namespace tessera {
namespace {

TEST(Quantile, ByHand) {
  const std::vector<double> values{4, 1, 3, 2};  // positions 0, 1, 2, 3
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 1), 4);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 1.0 / 3), 2);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 3.7);
  EXPECT_EQ(quantile({7}, 0.3), 7);
  EXPECT_EQ(quantile({-2, -2, -2}, 0.7), -2);  // interpolating equals must not round
}

TEST(Quantile, EqualsSorting) {
  Rng rng(5);
  std::vector<double> values(101);
  for (auto& value : values) value = rng.normal();
  auto sorted = values;
  std::sort(sorted.begin(), sorted.end());
  for (size_t k = 0; k < 100; ++k) {
    const double p = (static_cast<double>(k) + 0.25) / 100;
    EXPECT_NEAR(quantile(values, p), 0.75 * sorted[k] + 0.25 * sorted[k + 1], 1e-12) << p;
  }
}

TEST(Quantile, NothingAndNonsenseAreRefused) {
  EXPECT_THROW(quantile({}, 0.5), std::invalid_argument);
  EXPECT_THROW(quantile({1}, 1.5), std::invalid_argument);
  EXPECT_THROW(quantile({1}, std::nan("")), std::invalid_argument);
}

}  // namespace
}  // namespace tessera

#include "privacy/draws.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tessera {
namespace {

TEST(Draws, FromAKeyAreTheKeys) {
  Draws draws(5);
  Rng rng(5);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(draws.normal(), rng.normal());
  std::vector<float> a(7, 1), b(7, 1);
  Draws(9).add_normal(a, 2), Draws(9).add_normal(b, 2);
  EXPECT_EQ(a, b);
}

// 20,000 numbers: the mean is within 5 of its deviations of 0, the variance of 1.
TEST(Draws, AreNormalFromEitherSource) {
  constexpr size_t kNumbers = 20001;
  for (Draws draws : {Draws(3), Draws::of_system()}) {
    std::vector<float> x(kNumbers, 0);
    draws.add_normal(x, 3);
    double sum = 0, squares = 0, fourth = 0;
    for (const double v : x) sum += v / 3, squares += v * v / 9, fourth += v * v * v * v / 81;
    const double n = static_cast<double>(kNumbers);
    EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
    EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
    EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
    double one = 0;
    for (size_t i = 0; i < kNumbers; ++i) one += draws.normal();
    EXPECT_NEAR(one / n, 0, 5 / std::sqrt(n));
    for (int i = 0; i < 1000; ++i) {
      const double u = draws.uniform();
      EXPECT_GE(u, 0);
      EXPECT_LT(u, 1);
    }
  }
}

TEST(Draws, OfTheSystemDiffer) {
  auto a = Draws::of_system(), b = Draws::of_system();
  EXPECT_NE(a.uniform(), b.uniform());
}

}  // namespace
}  // namespace tessera

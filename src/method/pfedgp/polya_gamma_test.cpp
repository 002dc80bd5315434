#include "method/pfedgp/polya_gamma.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

constexpr int kDraws = 100000;

double mean_of(double c) { return c == 0 ? 0.25 : std::tanh(c / 2) / (2 * c); }
double variance_of(double c) {
  if (c == 0) return 1.0 / 24;
  return (std::sinh(c) - c) / (4 * c * c * c * std::pow(std::cosh(c / 2), 2));
}

class PolyaGamma : public ::testing::TestWithParam<double> {};

// Five standard errors; the variance's own is about sqrt(excess + 2) times larger.
TEST_P(PolyaGamma, MeanAndVarianceAreTheKnownOnes) {
  const double c = GetParam();
  Rng rng(11);
  double sum = 0, squares = 0, fourths = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double error = polya_gamma(rng, c) - mean_of(c);
    sum += error, squares += error * error, fourths += std::pow(error, 4);
  }
  const double n = kDraws, variance = squares / n;
  EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(variance_of(c) / n));
  EXPECT_NEAR(variance, variance_of(c), 5 * std::sqrt((fourths / n - variance * variance) / n));
}

// The whole distribution: E exp(−tω) = cosh(c/2) / cosh(√((c²/2 + t) / 2)).
TEST_P(PolyaGamma, LaplaceTransformIsTheKnownOne) {
  const double c = GetParam();
  for (const double t : {0.5, 4.0, 30.0}) {
    Rng rng(12);
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double value = std::exp(-t * polya_gamma(rng, c));
      sum += value, squares += value * value;
    }
    const double n = kDraws, mean = sum / n;
    const double expected = std::cosh(c / 2) / std::cosh(std::sqrt((c * c / 2 + t) / 2));
    EXPECT_NEAR(mean, expected, 5 * std::sqrt((squares / n - mean * mean) / n)) << t;
  }
}

// Both proposals of the left part are visited: 1/z on either side of the cut.
INSTANTIATE_TEST_SUITE_P(Tilts, PolyaGamma, ::testing::Values(0.0, 0.5, 2.0, 3.5, 8.0, 30.0));

TEST(PolyaGammaDraw, IsEvenInItsTiltAndFiniteFarOut) {
  for (const double c : {0.3, 5.0}) {
    Rng a(3), b(3);
    EXPECT_EQ(polya_gamma(a, c), polya_gamma(b, -c));
  }
  Rng rng(4);
  EXPECT_NEAR(polya_gamma(rng, 5000), mean_of(5000), 0.2 * mean_of(5000));
}

}  // namespace
}  // namespace tessera

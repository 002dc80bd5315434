#include "cli/significance.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

TEST(IncompleteBeta, ClosedForms) {
  for (const double x : {0.0, 0.01, 0.3, 0.5, 0.77, 0.999, 1.0}) {
    EXPECT_NEAR(incomplete_beta(1, 1, x), x, 1e-14);
    EXPECT_NEAR(incomplete_beta(3, 1, x), x * x * x, 1e-14);
    EXPECT_NEAR(incomplete_beta(1, 4, x), 1 - std::pow(1 - x, 4), 1e-14);
    EXPECT_NEAR(incomplete_beta(0.5, 0.5, x), 2 / M_PI * std::asin(std::sqrt(x)), 1e-13);
    EXPECT_NEAR(incomplete_beta(2.5, 7, x) + incomplete_beta(7, 2.5, 1 - x), 1, 1e-13);
  }
}

// With 1, 2 and 4 degrees of freedom the distribution is elementary.
TEST(Student, ClosedForms) {
  for (const double t : {-6.0, -1.0, -0.2, 0.0, 0.5, 2.0, 30.0}) {
    EXPECT_NEAR(student_cdf(t, 1), 0.5 + std::atan(t) / M_PI, 1e-13);
    const double r = t / std::sqrt(2 + t * t);
    EXPECT_NEAR(student_cdf(t, 2), 0.5 + r / 2, 1e-13);
    const double u = t / std::sqrt(4 + t * t);
    EXPECT_NEAR(student_cdf(t, 4), 0.5 + 0.75 * u * (1 - u * u / 3), 1e-13);
  }
}

// Printed tables: the 97.5 % points.
TEST(Student, QuantilesOfTables) {
  EXPECT_NEAR(student_cdf(2.228, 10), 0.975, 1e-5);
  EXPECT_NEAR(student_cdf(2.042, 30), 0.975, 3e-5);
  EXPECT_NEAR(student_cdf(1.960, 1e7), 0.975, 3e-6);
}

TEST(Student, QuantilesAreInverses) {
  EXPECT_NEAR(student_quantile(0.975, 1), 12.7062, 1e-4);  // printed tables
  EXPECT_NEAR(student_quantile(0.975, 2), 4.30265, 1e-5);
  EXPECT_NEAR(student_quantile(0.975, 4), 2.77645, 1e-5);
  EXPECT_NEAR(student_quantile(0.025, 4), -2.77645, 1e-5);
  EXPECT_NEAR(student_quantile(0.5, 7), 0, 1e-12);
}

// Mean 2, standard deviation 1, n = 3: t = 2 sqrt(3), and P(|T| > t) with 2 degrees of freedom is
// 1 − t / sqrt(2 + t²) = 1 − sqrt(12/14).
TEST(PairedTest, WorkedByHand) {
  const auto test = paired_test({1, 2, 3});
  EXPECT_DOUBLE_EQ(test.difference, 2);
  EXPECT_NEAR(test.p, 1 - std::sqrt(12.0 / 14.0), 1e-13);
  EXPECT_NEAR(paired_test({-1, -2, -3}).p, test.p, 1e-15);
}

// The same numbers: half the interval is 4.30265 / sqrt(3). Two standard deviations are decided by
// n = 4, where 2 sqrt(4) = 4 is above 3.182; at n = 3 it is 3.46 against 4.303.
TEST(PairedTest, IntervalAndHowManyWouldDecide) {
  const auto test = paired_test({1, 2, 3});
  EXPECT_NEAR(test.low, 2 - 4.30265 / std::sqrt(3.0), 1e-5);
  EXPECT_NEAR(test.high, 2 + 4.30265 / std::sqrt(3.0), 1e-5);
  EXPECT_EQ(test.needed, 4);
  EXPECT_EQ(paired_test({10, 11, 12}).needed, 2);  // 11 sqrt(2) is above 12.706
  EXPECT_EQ(paired_test({7, 8, 9}).needed, 3);     // 8 sqrt(2) is not, 8 sqrt(3) is above 4.303
  EXPECT_TRUE(std::isnan(paired_test({1}).low));
  EXPECT_EQ(paired_test({-1, 1}).needed, 0);
  EXPECT_EQ(paired_test({0.1, 0.1}).low, 0.1);
}

TEST(PairedTest, Limits) {
  EXPECT_TRUE(std::isnan(paired_test({}).difference));
  EXPECT_DOUBLE_EQ(paired_test({0.5}).difference, 0.5);
  EXPECT_TRUE(std::isnan(paired_test({0.5}).p));
  EXPECT_EQ(paired_test({0, 0, 0}).p, 1);
  EXPECT_EQ(paired_test({0.1, 0.1, 0.1}).p, 0);
  EXPECT_EQ(paired_test({-1, 1}).p, 1);
}

}  // namespace
}  // namespace tessera

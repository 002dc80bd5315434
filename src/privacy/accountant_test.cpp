#include "privacy/accountant.hpp"

#include <cmath>
#include <limits>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

double epsilon_with(double q, double sigma, int64_t steps, double delta,
                    Conversion conversion = Conversion::kImproved) {
  return *epsilon_of({q, sigma, steps}, delta, conversion);
}

// The definition, summed in long double: good where nothing overflows.
double divergence_by_definition(int order, double q, double sigma) {
  long double sum = 0, weight = std::pow(1.0L - q, order);  // binom(a, k) (1-q)^(a-k) q^k
  for (int k = 0; k <= order; ++k) {
    sum += weight * std::exp((static_cast<long double>(k) * k - k) / (2.0L * sigma * sigma));
    weight *= static_cast<long double>(order - k) / (k + 1) * q / (1.0L - q);
  }
  return static_cast<double>(std::log(sum) / (order - 1));
}

TEST(Accountant, AgreesWithTheReferenceTable) {
  const struct {
    double q, sigma;
    int64_t steps;
    double delta, improved, classic;
  } rows[] = {{256.0 / 60000, 1.1, 14062, 1e-5, 2.597, 3.009},
              {0.01, 1.0, 1000, 1e-5, 2.108, 2.538},
              {0.01, 4.0, 10000, 1e-5, 1.035, 1.259},
              {0.1, 1.0, 100, 1e-5, 7.973, 8.928},
              {1, 5.0, 100, 1e-5, 10.802, 11.756},
              {1, 10.0, 50, 1e-3, 2.341, 2.882}};
  for (const auto& row : rows) {
    EXPECT_NEAR(epsilon_with(row.q, row.sigma, row.steps, row.delta), row.improved, 0.01);
    EXPECT_NEAR(epsilon_with(row.q, row.sigma, row.steps, row.delta, Conversion::kClassic),
                row.classic, 0.01);
  }
}

TEST(Accountant, DivergenceIsTheDefinition) {
  for (const int order : {2, 3, 10, 32})
    for (const double q : {0.01, 0.3, 0.9})
      for (const double sigma : {0.8, 2.0, 10.0}) {
        const double expected = divergence_by_definition(order, q, sigma);
        EXPECT_NEAR(renyi_divergence(order, q, sigma), expected, 1e-10 * (1 + expected));
      }
}

TEST(Accountant, OfTwoTheDivergenceIsKnown) {
  // Order 2: log(1 + q² (e^(1/sigma²) - 1)), also where q² is far below a double's last digit.
  for (const double q : {1e-12, 1e-6, 0.5})
    EXPECT_NEAR(renyi_divergence(2, q, 2.0) / std::log1p(q * q * std::expm1(0.25)), 1.0, 1e-12);
}

TEST(Accountant, WithoutSamplingItIsThePlainGaussian) {
  for (const int order : renyi_orders()) {
    EXPECT_DOUBLE_EQ(renyi_divergence(order, 1.0, 3.0), order / 18.0);
    EXPECT_NEAR(renyi_divergence(order, 1.0 - 1e-12, 3.0), order / 18.0, 1e-8);
  }
  // Classic conversion of T a / (2 sigma²) + log(1/delta) / (a - 1), worked out at its best order:
  // T / (2 sigma²) = 1 and log(1/delta) = 9 give a = 4, epsilon 4 + 3.
  EXPECT_NEAR(epsilon_with(1, 5.0, 50, std::exp(-9.0), Conversion::kClassic), 7.0, 1e-12);
}

TEST(Accountant, MonotoneInEveryArgument) {
  for (const auto conversion : {Conversion::kImproved, Conversion::kClassic}) {
    double last = -1;
    for (const double q : {0.0, 1e-6, 1e-3, 0.01, 0.1, 0.5, 0.999, 1.0}) {
      const double now = epsilon_with(q, 1.5, 100, 1e-5, conversion);
      EXPECT_GT(now, last) << "q " << q;
      last = now;
    }
    last = std::numeric_limits<double>::infinity();
    for (const double sigma : {0.01, 0.3, 0.5, 1.0, 2.0, 8.0, 100.0}) {
      const double now = epsilon_with(0.05, sigma, 100, 1e-5, conversion);
      EXPECT_LT(now, last) << "sigma " << sigma;
      last = now;
    }
    last = -1;
    for (const int64_t steps : {0, 1, 2, 10, 1000, 100000}) {
      const double now = epsilon_with(0.05, 1.5, steps, 1e-5, conversion);
      EXPECT_GT(now, last) << "steps " << steps;
      last = now;
    }
    for (const double delta : {1e-12, 1e-8, 1e-5, 1e-3, 0.1}) {
      const double now = epsilon_with(0.05, 1.5, 100, delta, conversion);
      EXPECT_LT(now, last) << "delta " << delta;
      last = now;
    }
  }
  EXPECT_LT(epsilon_with(0.1, 1, 100, 1e-5), epsilon_with(0.1, 1, 100, 1e-5, Conversion::kClassic));
}

TEST(Accountant, PartsMakeTheWhole) {
  Accountant halves, whole, mixed, turned;
  for (int i = 0; i < 2; ++i) ASSERT_THAT(halves.add({0.02, 1.3, 500}), Succeeds());
  ASSERT_THAT(whole.add({0.02, 1.3, 1000}), Succeeds());
  EXPECT_EQ(*halves.epsilon(1e-5), *whole.epsilon(1e-5));
  EXPECT_EQ(halves.steps().size(), 1u);
  EXPECT_EQ(halves.steps()[0].steps, 1000);
  // Different kinds, in any order: the same bits. Two Gaussians without sampling are one whose
  // 1/sigma² is the sum: 1/4 + 1/12 = 1/3.
  ASSERT_THAT(mixed.add({1, 2.0, 1}), Succeeds());
  ASSERT_THAT(mixed.add({1, std::sqrt(12.0), 1}), Succeeds());
  ASSERT_THAT(turned.add({1, std::sqrt(12.0), 1}), Succeeds());
  ASSERT_THAT(turned.add({1, 2.0, 1}), Succeeds());
  EXPECT_EQ(*mixed.epsilon(1e-6), *turned.epsilon(1e-6));
  EXPECT_NEAR(*mixed.epsilon(1e-6), epsilon_with(1, std::sqrt(3.0), 1, 1e-6), 1e-12);
}

TEST(Accountant, ACheckpointKeepsTheBits) {
  Accountant before, after;
  ASSERT_THAT(before.add({0.1, 1.1, 7}), Succeeds());
  ASSERT_THAT(before.add({0.2, 0.9, 3}), Succeeds());
  for (const auto& steps : before.steps()) ASSERT_THAT(after.add(steps), Succeeds());
  EXPECT_EQ(*before.epsilon(1e-5), *after.epsilon(1e-5));
}

TEST(Accountant, EdgesHaveAnswers) {
  EXPECT_EQ(*Accountant().epsilon(1e-5), 0.0);
  EXPECT_EQ(epsilon_with(0.0, 1.0, 1000, 1e-5), 0.0);
  EXPECT_EQ(epsilon_with(0.0, 0.0, 1000, 1e-5), 0.0);
  EXPECT_EQ(epsilon_with(0.5, 1.0, 0, 1e-5), 0.0);
  EXPECT_TRUE(std::isinf(epsilon_with(0.01, 0.0, 1, 1e-5)));
  EXPECT_TRUE(std::isinf(epsilon_with(0.01, 1e-200, 1, 1e-5)));
  EXPECT_EQ(epsilon_with(0.5, std::numeric_limits<double>::infinity(), 1, 1e-5), 0.0);
  EXPECT_EQ(epsilon_with(0.001, 100.0, 1, 0.9), 0.0);  // a large delta alone covers it
}

TEST(Accountant, RefusesWhatIsNoRelease) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(epsilon_of({-0.1, 1, 1}, 1e-5), FailsWith(Error::kInvalid, "rate of -0.1"));
  EXPECT_THAT(epsilon_of({1.1, 1, 1}, 1e-5), FailsWith(Error::kInvalid, "from 0 to 1"));
  EXPECT_THAT(epsilon_of({nan, 1, 1}, 1e-5), FailsWith(Error::kInvalid, "rate"));
  EXPECT_THAT(epsilon_of({1, -1, 1}, 1e-5), FailsWith(Error::kInvalid, "multiplier of -1"));
  EXPECT_THAT(epsilon_of({1, nan, 1}, 1e-5), FailsWith(Error::kInvalid, "multiplier"));
  EXPECT_THAT(epsilon_of({1, 1, -1}, 1e-5), FailsWith(Error::kInvalid, "-1 steps"));
  for (const double delta : {0.0, 1.0, -1e-5, nan})
    EXPECT_THAT(epsilon_of({1, 1, 1}, delta), FailsWith(Error::kInvalid, "delta"));
  Accountant full;
  const auto most = std::numeric_limits<int64_t>::max();
  ASSERT_THAT(full.add({1, 1, most}), Succeeds());
  EXPECT_THAT(full.add({1, 1, 1}), FailsWith(Error::kInvalid, "too many"));
  EXPECT_EQ(full.steps()[0].steps, most);
}

TEST(SigmaFor, IsTheSmallestThatKeepsThePromise) {
  for (const double q : {0.01, 0.3, 1.0})
    for (const double epsilon : {0.5, 3.0, 40.0}) {
      const double sigma = *sigma_for(epsilon, 1e-5, q, 200);
      EXPECT_LE(epsilon_with(q, sigma, 200, 1e-5), epsilon);
      EXPECT_GT(epsilon_with(q, sigma * 0.99999, 200, 1e-5), epsilon);
    }
  // The table again, from the other side.
  EXPECT_NEAR(*sigma_for(2.108, 1e-5, 0.01, 1000), 1.0, 0.005);
  EXPECT_EQ(*sigma_for(1.0, 1e-5, 0.0, 1000), 0.0);
  EXPECT_EQ(*sigma_for(1.0, 1e-5, 0.5, 0), 0.0);
}

TEST(SigmaFor, RefusesWhatCannotBe) {
  EXPECT_THAT(sigma_for(0.0, 1e-5, 1, 1), FailsWith(Error::kInvalid, "epsilon = 0"));
  EXPECT_THAT(sigma_for(1.0, 0.0, 1, 1), FailsWith(Error::kInvalid, "delta"));
  EXPECT_THAT(sigma_for(1.0, 1e-5, 2.0, 1), FailsWith(Error::kInvalid, "rate"));
  EXPECT_THAT(sigma_for(1.0, 1e-5, 1, -1), FailsWith(Error::kInvalid, "steps"));
  EXPECT_THAT(sigma_for(1e-4, 1e-5, 1, 1), FailsWith(Error::kInvalid, "no noise gives"));
}

}  // namespace
}  // namespace tessera

#include "base/key.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace tessera {
namespace {

// The published generator with its running state, written from its definition: an independent path.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

struct Moments {
  double mean = 0, variance = 0;
};
template <class Draw>
Moments moments(int n, Draw draw) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = draw();
    sum += x, squares += x * x;
  }
  return {sum / n, squares / n - sum / n * sum / n};
}

double chi_square(const std::vector<int>& counts, double expected) {
  double out = 0;
  for (const int count : counts) out += (count - expected) * (count - expected) / expected;
  return out;
}

TEST(Key, MixGivesThePublishedSplitMix64Numbers) {
  const uint64_t gamma = 0x9e3779b97f4a7c15ULL;
  EXPECT_EQ(mix(0), 0xE220A8397B1DCDAFULL);
  EXPECT_EQ(mix(gamma), 0x6E789E6AA1B965F4ULL);
  EXPECT_EQ(mix(2 * gamma), 0x06C45D188009454FULL);
}

TEST(Key, AStreamIsSplitMix64FromTheMixedKey) {
  for (const uint64_t key : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
    SplitMix64 reference(mix(key));
    reference.next();  // counting starts at 1
    Rng rng(key);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(rng.bits(), reference.next()) << key << " " << i;
  }
}

TEST(Key, DeriveDependsOnEveryPartAndTheirOrder) {
  std::set<uint64_t> seen;
  int made = 0;
  for (uint64_t key = 0; key < 8; ++key)
    for (int64_t a = 0; a < 30; ++a)
      for (int64_t b = 0; b < 30; ++b) seen.insert(derive(key, a, b)), ++made;
  EXPECT_EQ(static_cast<int>(seen.size()), made);
  EXPECT_NE(derive(1, 2, 3), derive(1, 3, 2));
  EXPECT_NE(derive(1, 2), derive(2, 1));
  EXPECT_NE(derive(1, Purpose::kDrop, 4), derive(1, Purpose::kCohort, 4));
  EXPECT_EQ(derive(5, 6, 7), derive(derive(5, 6), 7));
  EXPECT_EQ(derive(5), 5U);
}

TEST(Key, NeighbouringStreamsAreUncorrelated) {
  const int n = 20000;
  for (const auto& [a, b] : {std::pair{derive(1, 1), derive(1, 2)},
                             {derive(1, 1), derive(2, 1)},
                             {uint64_t{7}, uint64_t{8}}}) {
    Rng first(a), second(b);
    const auto product =
        moments(n, [&] { return (first.uniform() - 0.5) * (second.uniform() - 0.5); });
    // Standard error 1/12/sqrt(n) = 0.0006.
    EXPECT_NEAR(product.mean, 0, 0.0025);
  }
}

TEST(Key, BelowIsUniform) {
  // 20 independent statistics of 6 degrees of freedom: their sum has mean 120 and deviation 15.5.
  double sum = 0;
  for (uint64_t key = 0; key < 20; ++key) {
    std::vector<int> counts(7);
    Rng rng(key);
    for (int i = 0; i < 7000; ++i) ++counts.at(rng.below(7));
    sum += chi_square(counts, 1000);
  }
  EXPECT_NEAR(sum, 120, 62);
}

TEST(Key, BelowHasNoModuloBias) {
  // A remainder of 64 bits by 3·2^62 would fall into the first third half of the time.
  const uint64_t third = uint64_t{1} << 62;
  Rng rng(3);
  const auto first = moments(30000, [&] { return rng.below(3 * third) < third ? 1.0 : 0.0; });
  EXPECT_NEAR(first.mean, 1.0 / 3, 0.012);
}

TEST(Key, BelowOneIsZeroAndBelowAPowerOfTwoReachesItsEnds) {
  Rng rng(1);
  std::set<uint64_t> seen;
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(rng.below(1), 0U);
    seen.insert(rng.below(4));
  }
  EXPECT_EQ(seen, (std::set<uint64_t>{0, 1, 2, 3}));
}

TEST(Key, UniformIsInTheUnitIntervalWithItsMoments) {
  Rng rng(11);
  double low = 1, high = 0;
  const auto m = moments(50000, [&] {
    const double x = rng.uniform();
    low = std::min(low, x), high = std::max(high, x);
    return x;
  });
  EXPECT_GE(low, 0.0);
  EXPECT_LT(high, 1.0);
  EXPECT_NEAR(m.mean, 0.5, 0.005);
  EXPECT_NEAR(m.variance, 1.0 / 12, 0.002);
  Rng scaled(11), plain(11);
  EXPECT_DOUBLE_EQ(scaled.uniform(-2, 6), -2 + 8 * plain.uniform());
}

TEST(Key, NormalHasItsMomentsAndTails) {
  Rng rng(12);
  int beyond = 0;
  double fourth = 0;
  const int n = 100000;
  const auto m = moments(n, [&] {
    const double x = rng.normal();
    beyond += std::abs(x) > 1.959964;
    fourth += x * x * x * x / n;
    return x;
  });
  EXPECT_NEAR(m.mean, 0, 0.013);
  EXPECT_NEAR(m.variance, 1, 0.018);
  EXPECT_NEAR(fourth, 3, 0.15);
  EXPECT_NEAR(beyond / static_cast<double>(n), 0.05, 0.0028);
}

TEST(Key, GammaHasMeanAndVarianceOfItsShape) {
  for (const double shape : {0.1, 0.5, 1.0, 2.5, 30.0}) {
    Rng rng(derive(13, static_cast<uint64_t>(shape * 10)));
    const int n = 60000;
    const auto m = moments(n, [&] { return rng.gamma(shape); });
    EXPECT_NEAR(m.mean, shape, 4 * std::sqrt(shape / n)) << shape;
    // Var of the sample variance is (kurtosis − 1) shape² / n with kurtosis 3 + 6 / shape.
    EXPECT_NEAR(m.variance, shape, 4 * shape * std::sqrt((2 + 6 / shape) / n)) << shape;
  }
}

TEST(Key, DirichletSharesSumToOneWithEqualMeansAndTheRightSpread) {
  const int n = 20000;
  const int64_t parts = 4;
  for (const double alpha : {0.1, 1.0, 10.0}) {
    Rng rng(14);
    std::vector<double> mean(parts);
    double second = 0;
    for (int i = 0; i < n; ++i) {
      const auto shares = rng.dirichlet(parts, alpha);
      double sum = 0;
      for (size_t k = 0; k < shares.size(); ++k) {
        ASSERT_GE(shares[k], 0);
        sum += shares[k];
        mean[k] += shares[k] / n;
      }
      ASSERT_NEAR(sum, 1, 1e-12);
      second += shares[0] * shares[0] / n;
    }
    const double variance = (1.0 / parts) * (1 - 1.0 / parts) / (parts * alpha + 1);
    for (const double m : mean) EXPECT_NEAR(m, 0.25, 4.5 * std::sqrt(variance / n)) << alpha;
    EXPECT_NEAR(second - mean[0] * mean[0], variance, 0.05 * variance) << alpha;
  }
}

TEST(Key, DirichletOfATinyAlphaIsOneWholeShareAtARandomPlace) {
  std::map<size_t, int> where;
  for (uint64_t key = 0; key < 300; ++key) {
    const auto shares = Rng(key).dirichlet(3, 1e-5);
    double sum = 0;
    for (size_t k = 0; k < 3; ++k) {
      ASSERT_TRUE(std::isfinite(shares[k]));
      sum += shares[k];
      if (shares[k] > 0.999) ++where[k];
    }
    ASSERT_NEAR(sum, 1, 1e-12);
  }
  for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(where[k], 100, 35) << k;
}

TEST(Key, PermutationsOfThreeComeEquallyOften) {
  std::map<std::vector<int64_t>, int> counts;
  for (uint64_t key = 0; key < 6000; ++key) ++counts[Rng(key).permutation(3)];
  ASSERT_EQ(counts.size(), 6U);
  std::vector<int> list;
  for (const auto& [order, count] : counts) list.push_back(count);
  EXPECT_LT(chi_square(list, 1000), 20.5);  // 5 degrees of freedom, 0.1 %
}

TEST(Key, APermutationHasEveryNumberOnce) {
  auto order = Rng(5).permutation(1000);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
  EXPECT_TRUE(Rng(5).permutation(0).empty());
}

TEST(Key, SampleIsDistinctAscendingAndFair) {
  std::vector<int> counts(6);
  for (uint64_t key = 0; key < 6000; ++key) {
    const auto picked = Rng(key).sample(6, 2);
    ASSERT_EQ(picked.size(), 2U);
    ASSERT_LT(picked[0], picked[1]);
    for (const int64_t i : picked) ++counts.at(static_cast<size_t>(i));
  }
  for (const int count : counts) EXPECT_NEAR(count, 2000, 150);  // deviation 36.5
  EXPECT_EQ(Rng(1).sample(3, 3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_TRUE(Rng(1).sample(3, 0).empty());
}

}  // namespace
}  // namespace tessera

#include "method/pfedgp/polya_gamma.hpp"

#include <cmath>
#include <numbers>

namespace tessera {
namespace {

// PG(1, c) is J*(1, c/2) / 4, whose density is an alternating series; left and right of kCut
// different forms of its terms fall monotonously (Polson et al., §4 and appendix).
constexpr double kCut = 0.64;
constexpr double kPi = std::numbers::pi;

double exponential(Rng& rng) { return -std::log1p(-rng.uniform()); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// The n-th term of the series at x.
double term(int n, double x) {
  const double k = n + 0.5;
  if (x > kCut) return kPi * k * std::exp(-k * k * kPi * kPi * x / 2);
  return kPi * k * std::pow(2 / (kPi * x), 1.5) * std::exp(-2 * k * k / x);
}

// Inverse Gaussian of mean 1/z and shape 1, below kCut.
double truncated_inverse_gaussian(Rng& rng, double z) {
  if (z * kCut < 1) {
    for (;;) {
      double a = exponential(rng), b = exponential(rng);
      while (a * a > 2 * b / kCut) a = exponential(rng), b = exponential(rng);
      const double x = kCut / ((1 + kCut * a) * (1 + kCut * a));
      if (rng.uniform() <= std::exp(-z * z * x / 2)) return x;
    }
  }
  const double mean = 1 / z;
  for (;;) {
    const double root = rng.normal(), y = mean * root * root;
    double x = mean * (1 + y / 2 - std::sqrt(y + y * y / 4));
    if (rng.uniform() > mean / (mean + x)) x = mean * mean / x;
    if (x <= kCut) return x;
  }
}

// The share of the proposals that lie right of kCut, where they are exponential with this rate.
double right_share(double z, double rate) {
  const double right = kPi / (2 * rate) * std::exp(-rate * kCut);
  const double root = std::sqrt(1 / kCut);
  // The logarithm keeps exp(z) · 0 from becoming infinity · 0.
  const double left = 2 * std::exp(-z) * normal_cdf(root * (kCut * z - 1)) +
                      2 * std::exp(z + std::log(normal_cdf(-root * (kCut * z + 1))));
  return right / (right + left);
}

// Whether height · (first term) lies below the density: the partial sums close in on it from above
// and below.
bool below_density(double x, double height) {
  double sum = term(0, x);
  const double y = height * sum;
  for (int n = 1;; ++n) {
    if (n % 2 == 1) {
      sum -= term(n, x);
      if (y <= sum) return true;
    } else {
      sum += term(n, x);
      if (y > sum) return false;
    }
  }
}

}  // namespace

double polya_gamma(Rng& rng, double c) {
  const double z = std::abs(c) / 2, rate = kPi * kPi / 8 + z * z / 2;
  const double right = right_share(z, rate);
  for (;;) {
    const double x =
        rng.uniform() < right ? kCut + exponential(rng) / rate : truncated_inverse_gaussian(rng, z);
    if (below_density(x, rng.uniform())) return x / 4;
  }
}

}  // namespace tessera

#include "cli/significance.hpp"

#include <cmath>
#include <limits>

namespace tessera {
namespace {

// The continued fraction of I_x, evaluated from the front (modified Lentz): each step multiplies by
// the ratio of two recurrences, kept away from zero so that neither can vanish.
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kEnough = 1e-15;
  constexpr int kMostTerms = 10000;
  const auto kept = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / kept(1 - (a + b) * x / (a + 1));
  double value = d;
  for (int m = 1; m <= kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / kept(1 + even * d), c = kept(1 + even / c);
    value *= c * d;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / kept(1 + odd * d), c = kept(1 + odd / c);
    value *= c * d;
    if (std::abs(c * d - 1) < kEnough) break;
  }
  return value;
}

// The fewest pairs whose interval excludes 0 when the mean is `effect` times the spread.
int64_t pairs_needed(double effect) {
  for (int64_t n = 2; n <= kMostPairs; ++n) {
    const auto count = static_cast<double>(n);
    if (effect * std::sqrt(count) > student_quantile(0.975, count - 1)) return n;
  }
  return 0;
}

}  // namespace

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  // The fraction converges fast below the mean; above it the symmetric one does.
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);
  const double log_front =
      std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  return std::exp(log_front) * beta_fraction(a, b, x) / a;
}

double student_cdf(double t, double freedom) {
  const double tail = 0.5 * incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
  return t > 0 ? 1 - tail : tail;
}

double student_quantile(double chance, double freedom) {
  if (chance < 0.5) return -student_quantile(1 - chance, freedom);
  double low = 0, high = 1;
  while (student_cdf(high, freedom) < chance) low = high, high *= 2;
  for (int i = 0; i < 100; ++i) {  // halves until the doubles run out
    const double middle = (low + high) / 2;
    (student_cdf(middle, freedom) < chance ? low : high) = middle;
  }
  return (low + high) / 2;
}

PairedTest paired_test(const std::vector<double>& differences) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const auto n = static_cast<double>(differences.size());
  if (differences.empty()) return {kNone, kNone, kNone, kNone};
  double sum = 0, squares = 0;
  for (const double d : differences) sum += d;
  const double mean = sum / n;
  if (differences.size() < 2) return {mean, kNone, kNone, kNone};
  for (const double d : differences) squares += (d - mean) * (d - mean);
  const double spread = std::sqrt(squares / (n - 1)), error = spread / std::sqrt(n);
  if (error <= std::numeric_limits<double>::epsilon() * std::abs(mean))
    return {mean, mean == 0 ? 1.0 : 0.0, mean, mean, mean == 0 ? 0 : 2};
  const double t = std::abs(mean) / error, half = error * student_quantile(0.975, n - 1);
  return {mean, incomplete_beta((n - 1) / 2, 0.5, (n - 1) / (n - 1 + t * t)), mean - half,
          mean + half, pairs_needed(std::abs(mean) / spread)};
}

}  // namespace tessera

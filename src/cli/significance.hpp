// Is a mean of paired differences more than chance? Student's t.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

/// Regularised incomplete beta function I_x(a, b) for a, b > 0, 0 <= x <= 1.
double incomplete_beta(double a, double b, double x);

/// P(T <= t) for Student's t with `freedom` > 0 degrees of freedom.
double student_cdf(double t, double freedom);

/// The t with P(T <= t) = `chance`, 0 < chance < 1.
double student_quantile(double chance, double freedom);

struct PairedTest {
  double difference = 0;     // mean
  double p = 1;              // two-sided; NaN with fewer than two pairs
  double low = 0, high = 0;  // the 95 % interval of the mean; NaN with fewer than two pairs
  /// How many such pairs would put the interval on one side of 0 if mean and spread stayed as they
  /// are: at most as many as there are where it already does. 0: not within kMostPairs.
  int64_t needed = 0;
};
inline constexpr int64_t kMostPairs = 1000;
/// Equal differences throughout: p = 1 when they are zero, else 0, and the interval is a point.
PairedTest paired_test(const std::vector<double>& differences);

}  // namespace tessera

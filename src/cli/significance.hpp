// Is a mean of paired differences more than chance? Student's t.
#pragma once

#include <vector>

namespace tessera {

/// Regularised incomplete beta function I_x(a, b) for a, b > 0, 0 <= x <= 1.
double incomplete_beta(double a, double b, double x);

/// P(T <= t) for Student's t with `freedom` > 0 degrees of freedom.
double student_cdf(double t, double freedom);

struct PairedTest {
  double difference = 0;  // mean
  double p = 1;           // two-sided; NaN with fewer than two pairs
};
/// Equal differences throughout: p = 1 when they are zero, else 0.
PairedTest paired_test(const std::vector<double>& differences);

}  // namespace tessera

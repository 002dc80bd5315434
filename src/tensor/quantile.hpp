// Quantiles as every method here understands them (docs/methods.md §0.4).
#pragma once

#include <vector>

namespace tessera {

/// The value at position p·(n − 1) of the sorted values, linear in between; 0 <= p <= 1.
/// Throws std::invalid_argument without values or with another p.
double quantile(std::vector<double> values, double p);

}  // namespace tessera

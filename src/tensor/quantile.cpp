#include "tensor/quantile.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tessera {

double quantile(std::vector<double> values, double p) {
  if (values.empty()) throw std::invalid_argument("quantile of no values");
  if (!(p >= 0 && p <= 1)) throw std::invalid_argument("quantile: p must be between 0 and 1");
  const double position = p * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<ptrdiff_t>(std::floor(position));
  std::nth_element(values.begin(), below, values.end());
  const double rest = position - std::floor(position);
  if (rest == 0) return *below;
  return std::lerp(*below, *std::min_element(below + 1, values.end()), rest);
}

}  // namespace tessera

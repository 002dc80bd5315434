#include "base/key.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera {

uint64_t Rng::below(uint64_t n) {
  // Reject the incomplete last block of 2^64 / n: otherwise small values are more likely.
  const uint64_t limit = UINT64_MAX - UINT64_MAX % n;
  uint64_t draw = bits();
  while (draw >= limit) draw = bits();
  return draw % n;
}

double Rng::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

double Rng::gamma(double shape) {
  if (shape < 1.0) {
    // Gamma(a) = Gamma(a+1) * U^(1/a)
    const double boost = std::pow(1.0 - uniform(), 1.0 / shape);
    return gamma(shape + 1.0) * boost;
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal();
    const double v = std::pow(1.0 + c * x, 3);
    if (v <= 0.0) continue;
    const double u = 1.0 - uniform();
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

std::vector<double> Rng::dirichlet(int64_t n, double alpha) {
  std::vector<double> shares(static_cast<size_t>(n));
  double total = 0.0;
  for (double& share : shares) total += share = gamma(alpha);
  if (total <= 0.0) {  // every gamma underflowed: the limit alpha -> 0 is one share of 1
    std::fill(shares.begin(), shares.end(), 0.0);
    shares[below(shares.size())] = 1.0;
    return shares;
  }
  for (double& share : shares) share /= total;
  return shares;
}

std::vector<int64_t> Rng::permutation(int64_t n) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  shuffle(std::span<int64_t>(order));
  return order;
}

std::vector<int64_t> Rng::sample(int64_t n, int64_t k) {
  auto order = permutation(n);
  order.resize(static_cast<size_t>(k));
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace tessera

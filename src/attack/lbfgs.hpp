// Minimisation by L-BFGS: the few hundred numbers of a picture, an objective that costs a gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <utility>

namespace tessera {

using at::Tensor;

/// The value at x [n] and its gradient [n].
using Objective = std::function<std::pair<double, Tensor>(const Tensor& x)>;

struct LbfgsOptions {
  int64_t iterations = 300;
  int64_t history = 50;  // pairs that stand for the curvature
  /// Stops where the largest entry of the gradient is not above this.
  double tolerance = 1e-12;
  /// Asked before every iteration; true: ends with what it has. May be empty.
  std::function<bool()> stop = {};
};

struct Minimum {
  Tensor x;
  double value = 0;
  int64_t iterations = 0;
};

/// From `start`, which stays as it is. Steps begin at 1 and satisfy the weak Wolfe conditions; it
/// ends early where no step makes the value smaller, also with a value that is not finite.
Minimum minimize_lbfgs(const Objective& objective, const Tensor& start,
                       const LbfgsOptions& options = {});

}  // namespace tessera

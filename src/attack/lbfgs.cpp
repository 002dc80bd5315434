#include "attack/lbfgs.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <deque>
#include <limits>
#include <vector>

#include "tensor/weights.hpp"

namespace tessera {
namespace {

/// A step and the change of the gradient over it.
struct CurvaturePair {
  Tensor step, change;
  double inverse;  // 1 / <step, change>
};

/// −H g by the two-loop recursion (Nocedal and Wright, algorithm 7.4).
Tensor lbfgs_direction(const std::deque<CurvaturePair>& pairs, const Tensor& gradient) {
  Tensor out = -gradient;
  std::vector<double> along;
  for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
    along.push_back(pair->inverse * dot64(pair->step, out));
    out.sub_(pair->change, along.back());
  }
  if (pairs.empty()) {
    // Nothing is known of the curvature yet: no entry moves by more than 1.
    return out.mul_(std::min(1.0, 1.0 / gradient.abs().sum().item<double>()));
  }
  const auto& last = pairs.back();
  out.mul_(1.0 / (last.inverse * dot64(last.change, last.change)));
  for (const auto& pair : pairs) {
    out.add_(pair.step, along.back() - pair.inverse * dot64(pair.change, out));
    along.pop_back();
  }
  return out;
}

struct LinePoint {
  bool found = false;
  Tensor x, gradient;
  double value = 0;
};

/// Doubling and halving until both conditions hold (Lewis and Overton). The last point that
/// descended is taken where they cannot be met.
LinePoint wolfe_point(const Objective& objective, const LinePoint& from, const Tensor& direction) {
  constexpr double kDescent = 1e-4, kCurvature = 0.9;
  constexpr int kMostTrials = 25;
  const double slope = dot64(from.gradient, direction);
  LinePoint best;
  if (!(slope < 0)) return best;
  double low = 0, high = std::numeric_limits<double>::infinity(), step = 1;
  for (int trial = 0; trial < kMostTrials; ++trial) {
    const Tensor x = from.x + step * direction;
    auto [value, gradient] = objective(x);
    if (!(value <= from.value + kDescent * step * slope)) {
      high = step;
    } else {
      best = {value < from.value, x, gradient, value};
      if (dot64(gradient, direction) >= kCurvature * slope) return best;
      low = step;
    }
    step = std::isfinite(high) ? (low + high) / 2 : 2 * low;
  }
  return best;
}

}  // namespace

Minimum minimize_lbfgs(const Objective& objective, const Tensor& start,
                       const LbfgsOptions& options) {
  LinePoint here{true, start.clone()};
  std::tie(here.value, here.gradient) = objective(here.x);
  Minimum out{here.x, here.value};
  std::deque<CurvaturePair> pairs;
  while (out.iterations < options.iterations && !(options.stop && options.stop())) {
    if (!(here.gradient.abs().max().item<double>() > options.tolerance)) break;
    auto next = wolfe_point(objective, here, lbfgs_direction(pairs, here.gradient));
    if (!next.found && !pairs.empty()) {
      // What is remembered may have gone stale: once more, downhill.
      pairs.clear();
      next = wolfe_point(objective, here, lbfgs_direction(pairs, here.gradient));
    }
    if (!next.found) break;
    ++out.iterations;
    const Tensor step = next.x - here.x, change = next.gradient - here.gradient;
    const double product = dot64(step, change);
    if (product > 0 && std::isfinite(1 / product)) pairs.push_back({step, change, 1 / product});
    if (pairs.size() > static_cast<size_t>(options.history)) pairs.pop_front();
    here = std::move(next);
  }
  out.x = here.x, out.value = here.value;
  return out;
}

}  // namespace tessera

// How the initial numbers of each slice are drawn.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/layout.hpp"

namespace tessera {

/// `scale` is the value (kConstant), the standard deviation (kNormal; kTruncated is drawn again
/// beyond two of them) or the bound (kUniform, in ±scale). kOrthogonal takes a slice of [k·n, n] as
/// k random orthogonal n×n blocks times `scale`.
struct Fill {
  enum class Kind { kConstant, kNormal, kTruncated, kUniform, kOrthogonal };
  Kind kind = Kind::kConstant;
  double scale = 0.0;
  bool operator==(const Fill&) const = default;
};

/// Float32 [layout.numel()]; each slice has its own stream of the key, so its numbers do not depend
/// on the other slices' sizes. One fill per slice, or std::invalid_argument. Each call gives
/// numbers of its own to change; a thread that asks for the same again gets them copied, not drawn.
Tensor drawn(const Layout& layout, const std::vector<Fill>& fills, uint64_t key);

}  // namespace tessera

// Coordinates of a vector that training must not move.
#pragma once

#include <utility>
#include <vector>

#include "tensor/weights.hpp"

namespace tessera {

/// Puts numbers back after a step that has moved all of them: weight decay and momentum move also
/// those whose gradient is zero. Parts of a model are ranges of its vector, so a few copies do it.
class Held {
 public:
  /// Holds nothing.
  Held() = default;
  /// Where `only` (bool [d]) is false, the numbers of `values` [d], which it shares.
  Held(const Tensor& only, const Tensor& values);

  /// Into w, contiguous, of the values' size and type.
  void put_back(Tensor& w) const;

 private:
  Tensor values_;
  std::vector<std::pair<int64_t, int64_t>> ranges_;  // begin and end
};

}  // namespace tessera

// Means and deviations from sums, which is all that clients would have to tell. Needs no torch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/client_data.hpp"

namespace tessera {

/// Over samples of one shape, for each feature (channel of pictures): how many values, their sum
/// and the sum of their squares. Sums of several clients add up.
struct FeatureSums {
  std::vector<double> n, sum, squares;

  /// Starts at 0 for samples of this shape: {F}, {T, F} or {C, H, W}.
  explicit FeatureSums(const std::vector<int64_t>& shape);
  /// Adds these rows of x, which are contiguous samples.
  void add(const float* x, std::span<const int64_t> rows);
  void add(const FeatureSums& other);
  size_t features() const { return sum.size(); }
  /// Population standard deviation; 0 for a feature that does not vary beyond rounding.
  double deviation(size_t feature) const;

 private:
  std::vector<double> sum_rest_, squares_rest_;  // what rounding took from the sums
  size_t sample_ = 1, plane_ = 1;  // values of a sample; values in a row of one channel
  bool channels_ = false;          // features come first (pictures), not last
};

/// Mean 0 and deviation 1; features marked in `keep` (empty: none) are left as they are.
Scaling scaling_of(const FeatureSums& sums, const std::vector<bool>& keep);

}  // namespace tessera

// Weighted vectors as whole numbers modulo 2^64, so that masks can hide them and sums are exact.
//
// A client with weight n_i (its number of samples) and upload v_i encodes
//     round(clip(v_i · n_i / n_max, ±c) · 2^f)   for each coordinate, and   round(n_i · 2^f)
// for its weight; n_max is agreed on before. The sum of encodings is the encoding of the sum, as
// long as it stays below 2^63: create() makes sure that it does. Each client's rounding is off by
// at most 2^-(f+1), so the decoded sum of N clients by at most N · 2^-(f+1), and the mean by n_max
// over the mean weight times 2^-(f+1): with f = 24 and equal weights 3e-8.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"

namespace tessera {

/// What all clients of a sum agree on.
struct FixedPointOptions {
  double clip = 16.0;      // c: a coordinate beyond it is cut off there
  int fraction_bits = 24;  // f
  double max_weight = 1;   // n_max: the largest weight that a client may have
  int64_t clients = 1;     // N: how many are added at most
};

/// The mean of what was added.
struct WeightedMean {
  std::vector<double> values;
  double weight = 0.0;  // the sum of weights
};

/// Encodes and decodes by one agreement. Immutable.
class FixedPoint {
 public:
  /// kInvalid: bounds, weights or counts that are not above 0 and finite, fraction bits outside 1
  /// to 52, or a sum that could reach 2^63.
  static Result<FixedPoint> create(const FixedPointOptions& options);

  /// As many words as values and one for the weight, which is the last. kInvalid: a weight that is
  /// negative, no number or above the largest; a value that is not finite.
  Result<std::vector<uint64_t>> encode(std::span<const float> values, double weight) const;
  /// How many of the values encode() would cut off at the clip. A caller tells its user: a mean of
  /// cut values is not the mean.
  int64_t clipped(std::span<const float> values, double weight) const;

  /// From the sum of encodings. All values are 0 if the sum of weights is 0. kInvalid: no words, or
  /// a sum of weights that these clients cannot have (somebody did not keep to the encoding).
  Result<WeightedMean> decode(std::span<const uint64_t> sum) const;

 private:
  explicit FixedPoint(const FixedPointOptions& options) : options_(options) {}
  double scale() const;
  double scaled(float value, double weight) const;

  FixedPointOptions options_;
};

}  // namespace tessera

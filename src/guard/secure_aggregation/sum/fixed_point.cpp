#include "guard/secure_aggregation/sum/fixed_point.hpp"

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

bool is_positive(double value) { return value > 0.0 && std::isfinite(value); }

// To the nearest, halves to even; the sign lives on modulo 2^64.
uint64_t to_word(double value) {
  return static_cast<uint64_t>(static_cast<int64_t>(std::nearbyint(value)));
}

double from_word(uint64_t word) { return static_cast<double>(static_cast<int64_t>(word)); }

}  // namespace

double FixedPoint::scale() const { return std::ldexp(1.0, options_.fraction_bits); }

double FixedPoint::scaled(float value, double weight) const {
  return static_cast<double>(value) * (weight / options_.max_weight);
}

Result<FixedPoint> FixedPoint::create(const FixedPointOptions& options) {
  if (!is_positive(options.clip))
    return fail(Error::kInvalid, "clip = {} must be above 0", options.clip);
  if (!is_positive(options.max_weight))
    return fail(Error::kInvalid, "the largest weight is {}; it must be above 0",
                options.max_weight);
  if (options.clients < 1)
    return fail(Error::kInvalid, "{} clients cannot be added", options.clients);
  if (options.fraction_bits < 1 || options.fraction_bits > 52)
    return fail(Error::kInvalid, "{} fraction bits are not from 1 to 52", options.fraction_bits);
  // Rounding adds at most 1/2 to each; 2^62 leaves room for it and for this product's own rounding.
  const double largest = std::max(options.clip, options.max_weight);
  if (largest * static_cast<double>(options.clients) >= std::ldexp(1.0, 62 - options.fraction_bits))
    return fail(Error::kInvalid,
                "a sum of {} clients with values up to {} and weights up to {} does not fit 64 "
                "bits with {} fraction bits: use fewer",
                options.clients, options.clip, options.max_weight, options.fraction_bits);
  return FixedPoint(options);
}

Result<std::vector<uint64_t>> FixedPoint::encode(std::span<const float> values,
                                                 double weight) const {
  if (!(weight >= 0.0 && weight <= options_.max_weight))
    return fail(Error::kInvalid, "a weight of {} is not from 0 to {}", weight, options_.max_weight);
  std::vector<uint64_t> out;
  out.reserve(values.size() + 1);
  for (const float value : values) {
    if (!std::isfinite(value))
      return fail(Error::kInvalid, "value {} is {}, which cannot be encoded", out.size(), value);
    out.push_back(
        to_word(std::clamp(scaled(value, weight), -options_.clip, options_.clip) * scale()));
  }
  out.push_back(to_word(weight * scale()));
  return out;
}

int64_t FixedPoint::clipped(std::span<const float> values, double weight) const {
  return std::count_if(values.begin(), values.end(), [&](float value) {
    return std::abs(scaled(value, weight)) > options_.clip;
  });
}

Result<WeightedMean> FixedPoint::decode(std::span<const uint64_t> sum) const {
  if (sum.empty()) return fail(Error::kInvalid, "a sum without words has no weight");
  WeightedMean out;
  out.weight = from_word(sum.back()) / scale();
  if (out.weight < 0.0 ||
      out.weight > (options_.max_weight + 1.0 / scale()) * static_cast<double>(options_.clients))
    return fail(Error::kInvalid,
                "the weights of {} clients add up to {}, but each has at most {}: somebody sent "
                "what is no encoding",
                options_.clients, out.weight, options_.max_weight);
  out.values.reserve(sum.size() - 1);
  const double factor = out.weight > 0.0 ? options_.max_weight / scale() / out.weight : 0.0;
  for (const auto word : sum.first(sum.size() - 1)) out.values.push_back(from_word(word) * factor);
  return out;
}

}  // namespace tessera

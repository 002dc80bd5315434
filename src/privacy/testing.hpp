// What the tests of privacy share.
#pragma once

#include <cmath>
#include <string_view>

#include "io/testing.hpp"

namespace tessera::testing {

inline Bytes from_hex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Bytes out;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    out.push_back(static_cast<uint8_t>(16 * digit(text[i]) + digit(text[i + 1])));
  return out;
}

/// Pearson's statistic of bytes against the uniform distribution: 255 degrees of freedom, so 255 ±
/// 22.6 for bytes without pattern.
inline double chi_square(ByteSpan bytes) {
  std::vector<double> counts(256);
  for (const auto byte : bytes) ++counts[byte];
  const double expected = static_cast<double>(bytes.size()) / 256;
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}
/// Bounds of that statistic, each missed by one file in 10,000 of uniform bytes (the quantiles of
/// chi-square with 255 degrees of freedom at 0.0001 and 0.9999, by Wilson and Hilferty).
constexpr double kChiSquareLow = 179.4, kChiSquareHigh = 347.7;

}  // namespace tessera::testing

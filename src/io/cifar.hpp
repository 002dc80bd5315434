// CIFAR's binary files: records of label bytes and 32×32 pixels in three planes; no header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

/// 3 channels (red, green, blue) of 32 × 32.
inline constexpr size_t kCifarPixels = 3072;

enum class CifarLabels {
  kOne,           // CIFAR-10, MNIST-M: label
  kCoarseAndFine  // CIFAR-100: superclass, class
};

/// Pixels point into the file's bytes.
struct CifarRecords {
  std::vector<uint8_t> labels;   // fine labels
  std::vector<uint8_t> coarse;   // superclasses, as they stand there; empty for kOne
  std::vector<ByteSpan> pixels;  // kCifarPixels each
};

/// kInvalid unless the file is a whole, positive number of records and each label below `classes`.
Result<CifarRecords> parse_cifar(ByteSpan file, CifarLabels labels, int64_t classes,
                                 const std::string& name);

}  // namespace tessera

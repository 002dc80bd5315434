// MNIST's idx files: big-endian header, unsigned bytes.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

/// Pixels point into the file's bytes: [count, rows, columns], row-major.
struct IdxImages {
  int64_t count = 0, rows = 0, columns = 0;
  ByteSpan pixels;
};

/// Magic 0x00000803. kInvalid unless the file is exactly as long as its header says, with
/// 1 … 4096 rows and columns.
Result<IdxImages> parse_idx_images(ByteSpan file, const std::string& name);

/// Magic 0x00000801. One byte a label, pointing into the file's bytes; kInvalid if one is not below
/// `classes`.
Result<ByteSpan> parse_idx_labels(ByteSpan file, int64_t classes, const std::string& name);

}  // namespace tessera

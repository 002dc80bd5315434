// NumPy's .npy and .npz: arrays by name, in C order whatever order the file has.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "io/bytes.hpp"
#include "io/dtype.hpp"

namespace tessera {

/// dtype is kU8, kI32, kI64, kF32 or kF64; data are dense, row-major, little-endian.
struct Npy {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // empty = scalar
  Bytes data;
};

/// One array of format version 1, 2 or 3. kInvalid for other element types ('|b1', '>f4', objects,
/// records, text), a size that is not the shape's, or a damaged header.
Result<Npy> parse_npy(ByteSpan file, const std::string& name);
/// Version 1, aligned as NumPy does. kInvalid for another dtype or data that do not fit the shape.
Result<Bytes> write_npy(const Npy& array);

/// Arrays by name without the ".npy". kInvalid if larger than max_bytes once unpacked.
Result<std::map<std::string, Npy>> parse_npz(ByteSpan file, size_t max_bytes,
                                             const std::string& name);
Result<std::map<std::string, Npy>> read_npz(const std::string& path,
                                            size_t max_bytes = size_t{4} << 30);
/// Stored, not packed; written whole or not at all.
Status write_npz(const std::string& path, const std::map<std::string, Npy>& arrays);

}  // namespace tessera

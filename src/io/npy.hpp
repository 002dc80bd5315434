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

/// Numbers, or text. dtype is any but kBF16; data are dense, row-major, little-endian. uint16 and
/// uint32 are widened to kI32 and kI64, which hold all their values.
struct Npy {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // empty = scalar
  Bytes data;
  bool is_text = false;            // then dtype means nothing, data are empty,
  std::vector<std::string> texts;  // and these are the elements, row-major, in UTF-8
};

/// One array of format version 1, 2 or 3. kInvalid for other element types ('>f4', '<u8', complex
/// numbers, objects, records), text that is no Unicode or holds a NUL, a size that is not the
/// shape's, or a damaged header.
Result<Npy> parse_npy(ByteSpan file, const std::string& name);
/// Version 1, aligned as NumPy does; text as '<U…', as wide as the longest. kInvalid for another
/// dtype or data that do not fit the shape.
Result<Bytes> write_npy(const Npy& array);

/// Element i (row-major) of an array of numbers; exact but for int64 beyond 2^53. i must be in it.
double number_at(const Npy& array, size_t i);
/// The element type as NumPy calls it: "uint8", "float16", "text".
std::string_view element_name(const Npy& array);

/// Arrays by name without the ".npy". kInvalid if larger than max_bytes once unpacked.
Result<std::map<std::string, Npy>> parse_npz(ByteSpan file, size_t max_bytes,
                                             const std::string& name);
Result<std::map<std::string, Npy>> read_npz(const std::string& path,
                                            size_t max_bytes = size_t{4} << 30);
/// Stored, not packed; written whole or not at all.
Status write_npz(const std::string& path, const std::map<std::string, Npy>& arrays);

}  // namespace tessera

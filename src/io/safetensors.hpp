// The safetensors format without torch: 8-byte little-endian header length, JSON header, data.
//
// A parsed file refers to the bytes it was parsed from; nothing is copied.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "io/bytes.hpp"
#include "io/dtype.hpp"

namespace tessera {

struct SafeTensors {
  struct Entry {
    std::string name;
    DType dtype = DType::kF32;
    std::vector<int64_t> shape;   // empty = scalar
    uint64_t begin = 0, end = 0;  // of its data, counted from the start of the file
  };

  std::map<std::string, std::string> metadata;  // "__metadata__"
  std::vector<Entry> entries;                   // ascending by begin: they tile the data section

  /// Null if there is none of that name.
  const Entry* find(std::string_view name) const;
};

/// Everything is checked: lengths, JSON (an object, no key twice), known dtypes, shapes without
/// overflow, offsets that cover the data section exactly once. kInvalid says what is wrong and
/// where.
Result<SafeTensors> parse_safetensors(ByteSpan file, const std::string& name);

/// A tensor to write; the data are dense, row-major, little-endian, exactly tensor_bytes long.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  ByteSpan data;
};

/// The bytes of a file: tensors by descending item size, then by name, so each is aligned to its
/// item size. Equal input in any order gives equal bytes. kInvalid for a name twice, the name
/// "__metadata__", text that is not UTF-8, or data whose size is not that of the shape.
Result<Bytes> write_safetensors(std::vector<TensorToWrite> tensors,
                                const std::map<std::string, std::string>& metadata = {});
/// How many bytes write_safetensors would give without metadata; of the data only the sizes are
/// used.
size_t safetensors_size(std::vector<TensorToWrite> tensors);

}  // namespace tessera

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

/// How much a header may hold; a file of one's own is trusted with more than a message.
struct SafeTensorsLimits {
  size_t tensors = SIZE_MAX;
  size_t name_bytes = SIZE_MAX;  // of a tensor, and of a key of the metadata
  size_t texts = SIZE_MAX;       // in the metadata
  size_t text_bytes = SIZE_MAX;  // of each
};
/// Of what travels between clients and servers; docs/protocol.md states the same.
inline constexpr SafeTensorsLimits kMessageLimits{
    .tensors = 100'000, .name_bytes = 1024, .texts = 16, .text_bytes = 4096};

/// Everything is checked: lengths, JSON (an object, no key twice), known dtypes, shapes of at most
/// 64 axes and without overflow, offsets that cover the data section exactly once, the limits.
/// kInvalid says what is wrong and where, and stops there: what lies behind costs no memory.
Result<SafeTensors> parse_safetensors(ByteSpan file, const std::string& name,
                                      const SafeTensorsLimits& limits = {});

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

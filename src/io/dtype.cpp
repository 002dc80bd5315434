#include "io/dtype.hpp"

#include <array>
#include <limits>

namespace tessera {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  size_t size;
};

constexpr std::array<Row, 10> kRows{{{DType::kBool, "BOOL", 1},
                                     {DType::kU8, "U8", 1},
                                     {DType::kI8, "I8", 1},
                                     {DType::kI16, "I16", 2},
                                     {DType::kI32, "I32", 4},
                                     {DType::kI64, "I64", 8},
                                     {DType::kF16, "F16", 2},
                                     {DType::kBF16, "BF16", 2},
                                     {DType::kF32, "F32", 4},
                                     {DType::kF64, "F64", 8}}};

}  // namespace

size_t item_size(DType dtype) { return kRows[static_cast<size_t>(dtype)].size; }

std::string_view dtype_name(DType dtype) { return kRows[static_cast<size_t>(dtype)].name; }

std::optional<DType> dtype_by_name(std::string_view name) {
  for (const auto& row : kRows)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

std::optional<uint64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  uint64_t bytes = item_size(dtype);
  bool empty = false;
  for (const int64_t n : shape) {
    if (n < 0) return std::nullopt;
    if (n == 0) {
      empty = true;
      continue;
    }
    // Overflow counts even beside a zero: strides of such a shape could not be computed.
    if (bytes > kMost / static_cast<uint64_t>(n)) return std::nullopt;
    bytes *= static_cast<uint64_t>(n);
  }
  return empty ? 0 : bytes;
}

}  // namespace tessera

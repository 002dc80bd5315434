// Element types of tensors in files, and the checked arithmetic of their sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tessera {

enum class DType { kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64 };

/// Bytes of one element.
size_t item_size(DType dtype);
/// As safetensors writes it: "BOOL", "U8", …, "BF16", "F32", "F64".
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_by_name(std::string_view name);

/// Bytes of a dense tensor; empty if a dimension is negative or the product does not fit 63 bits.
std::optional<uint64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape);

}  // namespace tessera

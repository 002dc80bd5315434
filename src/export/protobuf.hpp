// The wire format of protocol buffers, as far as ONNX needs it:
// https://protobuf.dev/programming-guides/encoding
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "io/bytes.hpp"

namespace tessera {

/// A message under construction; fields are written in the order of the calls.
class Message {
 public:
  Message& number(uint32_t field, int64_t value) {
    varint(uint64_t{field} << 3);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& real(uint32_t field, float value) {
    varint(uint64_t{field} << 3 | 5);
    append_little_endian(bytes_, std::bit_cast<uint32_t>(value));
    return *this;
  }
  Message& bytes(uint32_t field, ByteSpan value) {
    varint(uint64_t{field} << 3 | 2);
    varint(value.size());
    bytes_.insert(bytes_.end(), value.begin(), value.end());
    return *this;
  }
  Message& text(uint32_t field, std::string_view value) { return bytes(field, bytes_of(value)); }
  Message& message(uint32_t field, const Message& value) { return bytes(field, value.bytes_); }

  const Bytes& written() const { return bytes_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<uint8_t>(value | 0x80));
    bytes_.push_back(static_cast<uint8_t>(value));
  }

  Bytes bytes_;
};

}  // namespace tessera

// Bytes from outside: the vocabulary of io, and little- and big-endian numbers in it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Owned, and borrowed for reading. Neither says what the bytes mean.
using Bytes = std::vector<uint8_t>;
using ByteSpan = std::span<const uint8_t>;

/// The same memory seen the other way; valid as long as the argument's. Nothing is checked: text_of
/// may be no UTF-8.
inline ByteSpan bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string_view text_of(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Text from a file made fit for a message: ASCII control characters become '?', what is longer
/// than `longest` bytes is cut between characters and ends in "…".
std::string printable(std::string_view text, size_t longest = 60);

/// The first 2, 4 or 8 bytes (sizeof Int) as an unsigned number, least significant byte first.
/// The span must hold that many: callers check. Bytes behind are ignored; any alignment.
template <class Int>
Int little_endian(ByteSpan bytes) {
  Int value = 0;
  for (size_t i = sizeof(Int); i-- > 0;) value = static_cast<Int>((value << 8) | bytes[i]);
  return value;
}
/// The same, most significant byte first.
template <class Int>
Int big_endian(ByteSpan bytes) {
  Int value = 0;
  for (size_t i = 0; i < sizeof(Int); ++i) value = static_cast<Int>((value << 8) | bytes[i]);
  return value;
}
/// Adds sizeof(Int) bytes, least significant first.
template <class Int>
void append_little_endian(Bytes& out, Int value) {
  for (size_t i = 0; i < sizeof(Int); ++i)
    out.push_back(static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i)));
}

}  // namespace tessera

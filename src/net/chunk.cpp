#include "net/chunk.hpp"

#include <array>
#include <limits>
#include <new>
#include <utility>

#include "base/text.hpp"
#include "net/ticket.hpp"

namespace tessera {
namespace {

constexpr size_t kCrcLanes = 8;
using CrcTables = std::array<std::array<uint32_t, 256>, kCrcLanes>;

// Table k tells what a byte does to the remainder when k more bytes follow it, so that eight bytes
// are taken at once ("slicing by 8"): a chunk must not cost more than the link.
constexpr CrcTables make_crc_tables() {
  constexpr uint32_t kReversedCastagnoli = 0x82F63B78;
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? kReversedCastagnoli : 0);
    tables[0][byte] = value;
  }
  for (size_t lane = 1; lane < kCrcLanes; ++lane)
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t shorter = tables[lane - 1][byte];
      tables[lane][byte] = (shorter >> 8) ^ tables[0][shorter & 0xFF];
    }
  return tables;
}

constexpr CrcTables kCrcTables = make_crc_tables();

}  // namespace

uint32_t crc32c(ByteSpan bytes, uint32_t before) {
  uint32_t crc = ~before;
  for (; bytes.size() >= kCrcLanes; bytes = bytes.subspan(kCrcLanes)) {
    const uint64_t word = little_endian<uint64_t>(bytes) ^ crc;
    crc = 0;
    for (size_t i = 0; i < kCrcLanes; ++i)
      crc ^= kCrcTables[kCrcLanes - 1 - i][(word >> (8 * i)) & 0xFF];
  }
  for (const uint8_t byte : bytes) crc = (crc >> 8) ^ kCrcTables[0][(crc ^ byte) & 0xFF];
  return ~crc;
}

Status check_chunk(const ChunkView& chunk, int64_t max_bytes) {
  const auto size = static_cast<int64_t>(chunk.data.size());
  if (size == 0) return fail(Error::kInvalid, "a chunk at {} has no data", chunk.offset);
  if (size > max_bytes)
    return fail(Error::kInvalid, "a chunk at {} has {} bytes; at most {} are allowed", chunk.offset,
                size, max_bytes);
  if (chunk.offset < 0 || chunk.offset > std::numeric_limits<int64_t>::max() - size)
    return fail(Error::kInvalid, "a chunk is at {}, which is no place in a message", chunk.offset);
  if (crc32c(chunk.data) != chunk.crc32c)
    return fail(Error::kInvalid, "the chunk at {} was damaged on the way (CRC-32C); send it again",
                chunk.offset);
  return ok();
}

Result<ChunkAssembler> ChunkAssembler::create(int64_t size, std::string sha256,
                                              int64_t max_bytes) try {
  if (size < 1 || size > max_bytes)
    return fail(Error::kInvalid, "a message of {} bytes was announced; 1 to {} are allowed", size,
                max_bytes);
  if (!is_ticket(sha256))
    return fail(Error::kInvalid, "'{}' is no SHA-256 in lower-case hex", printable(sha256));
  ChunkAssembler out(size, std::move(sha256));
  out.bytes_.reserve(static_cast<size_t>(size));
  return out;
} catch (const std::bad_alloc&) {
  return fail(Error::kIo, "not enough memory for a message of {}",
              human_bytes(static_cast<double>(size)));
}

Status ChunkAssembler::add(const ChunkView& chunk) {
  TESSERA_RETURN_IF_ERROR(check_chunk(chunk, size_));
  if (chunk.offset < received())
    return fail(Error::kInvalid, "a chunk at {} repeats bytes; {} are there already", chunk.offset,
                received());
  if (chunk.offset > received())
    return fail(Error::kInvalid, "a chunk at {} leaves a gap: {} bytes are there", chunk.offset,
                received());
  if (static_cast<int64_t>(chunk.data.size()) > size_ - received())
    return fail(Error::kInvalid, "a chunk at {} ends beyond the {} bytes that were announced",
                chunk.offset, size_);
  bytes_.insert(bytes_.end(), chunk.data.begin(), chunk.data.end());
  digest_.add(chunk.data);
  return ok();
}

Result<Bytes> ChunkAssembler::take() {
  if (!whole())
    return fail(Error::kInvalid, "{} of {} bytes are there; fetch the rest", received(), size_);
  const auto digest = std::exchange(digest_, Sha256()).hex();
  if (digest == sha256_) return std::exchange(bytes_, {});
  bytes_.clear();
  return fail(Error::kInvalid,
              "a message was damaged on the way: its SHA-256 is {}, not {}; fetch it again", digest,
              sha256_);
}

}  // namespace tessera

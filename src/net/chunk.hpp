// A long message in pieces: each with its place and a checksum, put together again in order.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "io/bytes.hpp"
#include "io/sha256.hpp"

namespace tessera {

/// CRC-32C (Castagnoli, as in iSCSI) of `bytes`; of a longer text piece by piece if `before` is the
/// value of what came before them. Finds damage on the way, not forgery.
uint32_t crc32c(ByteSpan bytes, uint32_t before = 0);

/// A piece as it arrived: nothing in it is believed yet. Borrows the data.
struct ChunkView {
  int64_t offset = 0;  // of its first byte in the message
  ByteSpan data;
  uint32_t crc32c = 0;  // of data
};

/// kInvalid for a chunk without data, with more than `max_bytes` of them, at a place before the
/// beginning or beyond what an int64 counts, or with another checksum.
Status check_chunk(const ChunkView& chunk, int64_t max_bytes);

/// Puts a message together whose size and digest are known before it comes. What has arrived stays
/// when a stream breaks: the next one goes on at received(). Not thread-safe; movable.
class ChunkAssembler {
 public:
  /// `sha256` is 64 lower-case hex digits. Memory for the message is set aside here. kInvalid: a
  /// size below 1 or above `max_bytes`, or no such digest. kIo: not enough memory.
  static Result<ChunkAssembler> create(int64_t size, std::string sha256, int64_t max_bytes);

  /// Adds the chunk at received(). kInvalid says what is wrong: check_chunk(), a chunk that
  /// repeats what is there, one that leaves a gap, one that goes beyond the size. Then nothing has
  /// changed.
  Status add(const ChunkView& chunk);
  /// Bytes that are there: where the next chunk begins.
  int64_t received() const { return static_cast<int64_t>(bytes_.size()); }
  bool whole() const { return received() == size_; }
  /// The message; the assembler is empty again. kInvalid: bytes are missing (those that are there
  /// stay), or the digest differs (then all are dropped and it begins anew).
  Result<Bytes> take();

 private:
  ChunkAssembler(int64_t size, std::string sha256) : size_(size), sha256_(std::move(sha256)) {}

  int64_t size_;
  std::string sha256_;
  Bytes bytes_;
  Sha256 digest_;  // of bytes_
};

}  // namespace tessera

// The file is a message as a server might send it: flags, the announced size (4 bytes), the SHA-256
// (32 bytes), then chunks: offset (8), CRC-32C (4), length (2), data. A fuzzer finds no checksums,
// so flag 1 has the chunks' and flag 2 the message's computed here.
#include <optional>

#include "expect.hpp"
#include "io/bytes.hpp"
#include "net/chunk.hpp"

namespace {

using namespace tessera;

constexpr int64_t kMost = 4096;
constexpr size_t kHead = 1 + 4 + 32;

std::optional<ChunkView> next_chunk(ByteSpan& rest, bool mend) {
  if (rest.size() < 14) return std::nullopt;
  const auto length = std::min<size_t>(little_endian<uint16_t>(rest.subspan(12)), rest.size() - 14);
  const auto data = rest.subspan(14, length);
  const ChunkView out{static_cast<int64_t>(little_endian<uint64_t>(rest)), data,
                      mend ? crc32c(data) : little_endian<uint32_t>(rest.subspan(8))};
  rest = rest.subspan(14 + length);
  return out;
}

// What must be there in the end, by the plainest rule: a chunk counts where the last one ended.
Bytes plain_assembly(ByteSpan rest, bool mend, int64_t size) {
  Bytes out;
  while (const auto chunk = next_chunk(rest, mend)) {
    const bool fits = std::cmp_equal(chunk->offset, out.size()) && !chunk->data.empty() &&
                      out.size() + chunk->data.size() <= static_cast<size_t>(size);
    if (fits && crc32c(chunk->data) == chunk->crc32c)
      out.insert(out.end(), chunk->data.begin(), chunk->data.end());
  }
  return out;
}

std::string hex_of(ByteSpan bytes) {
  std::string out;
  for (const auto byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t count) {
  const ByteSpan file(data, count);
  if (count < kHead) return 0;
  const bool mend_chunks = file[0] & 1, mend_message = file[0] & 2;
  const auto size = static_cast<int64_t>(little_endian<uint32_t>(file.subspan(1)));
  auto rest = file.subspan(kHead);
  const auto whole = plain_assembly(rest, mend_chunks, size);
  const auto digest = mend_message ? sha256_hex(whole) : hex_of(file.subspan(5, 32));
  auto parts = ChunkAssembler::create(size, digest, kMost);
  expect(parts.ok() == (size >= 1 && size <= kMost), "only the size decides");
  if (!parts.ok()) return 0;
  while (const auto chunk = next_chunk(rest, mend_chunks)) {
    const auto before = parts->received();
    const bool added = parts->add(*chunk).ok();
    expect(added == (parts->received() != before), "a chunk that is refused changes nothing");
    expect(!added || chunk->offset == before, "a chunk goes where the last one ended");
  }
  expect(std::cmp_equal(parts->received(), whole.size()), "neither more nor less is there");
  expect(parts->whole() == std::cmp_equal(whole.size(), size), "whole when all bytes are there");
  const auto message = parts->take();
  expect(message.ok() == (std::cmp_equal(whole.size(), size) && sha256_hex(whole) == digest),
         "a message comes out if it is the one that was announced");
  expect(!message.ok() || *message == whole, "byte for byte");
  return 0;
}

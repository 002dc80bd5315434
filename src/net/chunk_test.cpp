#include "net/chunk.hpp"

#include <limits>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;
using testing::to_bytes;

// The definition, bit by bit: slow, and independent of tables.
uint32_t crc32c_by_bits(ByteSpan bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const uint8_t byte : bytes)
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ (((crc ^ (byte >> bit)) & 1) ? 0x82F63B78 : 0);
  return crc ^ 0xFFFFFFFF;
}

Bytes counting_bytes(size_t count) {
  Bytes out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<uint8_t>(i * 7 + (i >> 8));
  return out;
}

ChunkView piece_of(const Bytes& message, size_t begin, size_t end) {
  const auto data = ByteSpan(message).subspan(begin, end - begin);
  return {static_cast<int64_t>(begin), data, crc32c_by_bits(data)};
}

TEST(Crc32c, AgreesWithPublishedValues) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c({}), 0u);
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(Bytes(32, 0x00)), 0x8A9136AAu);
  EXPECT_EQ(crc32c(Bytes(32, 0xFF)), 0x62A8AB43u);
  Bytes ascending(32), descending(32);
  for (uint8_t i = 0; i < 32; ++i) ascending[i] = i, descending[i] = static_cast<uint8_t>(31 - i);
  EXPECT_EQ(crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(crc32c(descending), 0x113FDB5Cu);
}

TEST(Crc32c, IsTheDefinitionForAnyLengthAndAnyCut) {
  const auto bytes = counting_bytes(70);
  for (size_t size = 0; size <= bytes.size(); ++size)
    EXPECT_EQ(crc32c(ByteSpan(bytes).first(size)), crc32c_by_bits(ByteSpan(bytes).first(size)));
  for (size_t cut = 0; cut <= bytes.size(); ++cut)
    EXPECT_EQ(crc32c(ByteSpan(bytes).subspan(cut), crc32c(ByteSpan(bytes).first(cut))),
              crc32c_by_bits(bytes));
}

TEST(CheckChunk, RefusesWhatIsNoChunk) {
  const auto data = to_bytes("abc");
  const auto crc = crc32c_by_bits(data);
  EXPECT_THAT(check_chunk({0, data, crc}, 3), Succeeds());
  EXPECT_THAT(check_chunk({int64_t{1} << 40, data, crc}, 3), Succeeds());
  EXPECT_THAT(check_chunk({0, {}, 0}, 3), FailsWith(Error::kInvalid, "no data"));
  EXPECT_THAT(check_chunk({0, data, crc}, 2), FailsWith(Error::kInvalid, "has 3 bytes"));
  EXPECT_THAT(check_chunk({-1, data, crc}, 3), FailsWith(Error::kInvalid, "at -1"));
  const auto last = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(check_chunk({last - 3, data, crc}, 3), Succeeds());
  EXPECT_THAT(check_chunk({last - 2, data, crc}, 3), FailsWith(Error::kInvalid, "no place"));
  EXPECT_THAT(check_chunk({5, data, crc ^ 1}, 3), FailsWith(Error::kInvalid, "chunk at 5 was dam"));
}

TEST(ChunkAssembler, PutsPiecesTogetherHoweverTheyAreCut) {
  const auto message = counting_bytes(23);
  for (const size_t step : {1, 2, 7, 22, 23}) {
    auto parts = ChunkAssembler::create(23, sha256_hex(message), 23);
    ASSERT_THAT(parts, Succeeds());
    for (size_t at = 0; at < 23; at += step) {
      EXPECT_FALSE(parts->whole());
      EXPECT_THAT(parts->add(piece_of(message, at, std::min<size_t>(at + step, 23))), Succeeds());
    }
    EXPECT_TRUE(parts->whole());
    EXPECT_EQ(*parts->take(), message);
    EXPECT_EQ(parts->received(), 0);
  }
}

TEST(ChunkAssembler, RefusesEachFaultInASentenceAndStaysAsItWas) {
  const auto message = counting_bytes(20);
  auto parts = ChunkAssembler::create(20, sha256_hex(message), 100);
  ASSERT_THAT(parts, Succeeds());
  ASSERT_THAT(parts->add(piece_of(message, 0, 8)), Succeeds());
  EXPECT_THAT(parts->add(piece_of(message, 0, 8)), FailsWith(Error::kInvalid, "repeats"));
  EXPECT_THAT(parts->add(piece_of(message, 7, 9)), FailsWith(Error::kInvalid, "repeats"));
  EXPECT_THAT(parts->add(piece_of(message, 9, 12)), FailsWith(Error::kInvalid, "a gap"));
  auto damaged = piece_of(message, 8, 12);
  damaged.crc32c ^= 0x80000000;
  EXPECT_THAT(parts->add(damaged), FailsWith(Error::kInvalid, "damaged"));
  const auto longer = counting_bytes(21);
  EXPECT_THAT(parts->add(piece_of(longer, 8, 21)), FailsWith(Error::kInvalid, "beyond the 20"));
  EXPECT_THAT(parts->add({8, {}, 0}), FailsWith(Error::kInvalid, "no data"));
  EXPECT_THAT(parts->take(), FailsWith(Error::kInvalid, "8 of 20"));
  EXPECT_EQ(parts->received(), 8);
  // The stream broke; the next one goes on where this one ended.
  EXPECT_THAT(parts->add(piece_of(message, 8, 20)), Succeeds());
  EXPECT_THAT(parts->add(piece_of(longer, 20, 21)), FailsWith(Error::kInvalid, "beyond"));
  EXPECT_EQ(*parts->take(), message);
}

TEST(ChunkAssembler, BeginsAnewWhenTheWholeIsAnother) {
  const auto message = counting_bytes(5);
  auto parts = ChunkAssembler::create(5, sha256_hex(message), 5);
  ASSERT_THAT(parts, Succeeds());
  ASSERT_THAT(parts->add(piece_of(to_bytes("other"), 0, 5)), Succeeds());
  EXPECT_THAT(parts->take(), FailsWith(Error::kInvalid, "fetch it again"));
  EXPECT_EQ(parts->received(), 0);
  ASSERT_THAT(parts->add(piece_of(message, 0, 5)), Succeeds());
  EXPECT_EQ(*parts->take(), message);
}

TEST(ChunkAssembler, RefusesAnAnnouncementThatCannotBe) {
  const auto digest = sha256_hex({});
  EXPECT_THAT(ChunkAssembler::create(0, digest, 9), FailsWith(Error::kInvalid, "0 bytes"));
  EXPECT_THAT(ChunkAssembler::create(-1, digest, 9), FailsWith(Error::kInvalid, "-1 bytes"));
  EXPECT_THAT(ChunkAssembler::create(10, digest, 9), FailsWith(Error::kInvalid, "1 to 9"));
  EXPECT_THAT(ChunkAssembler::create(9, "ABC", 9), FailsWith(Error::kInvalid, "'ABC'"));
}

}  // namespace
}  // namespace tessera

#include "io/png.hpp"

#include <gmock/gmock.h>
#include <zlib.h>

namespace tessera {
namespace {

// RFC 4648, section 10.
TEST(Base64, TestVectors) {
  for (const auto& [plain, coded] : {std::pair{"", ""},
                                     {"f", "Zg=="},
                                     {"fo", "Zm8="},
                                     {"foo", "Zm9v"},
                                     {"foob", "Zm9vYg=="},
                                     {"fooba", "Zm9vYmE="},
                                     {"foobar", "Zm9vYmFy"}})
    EXPECT_EQ(base64(bytes_of(plain)), coded);
  EXPECT_EQ(base64(Bytes{0xFB, 0xFF, 0xFE}), "+//+");
}

struct Chunk {
  std::string type;
  Bytes data;
};

// An independent reading: signature, lengths and CRCs as the standard says.
std::vector<Chunk> chunks(const Bytes& png) {
  EXPECT_EQ(text_of(ByteSpan(png).first(8)), std::string_view("\x89PNG\r\n\x1A\n", 8));
  std::vector<Chunk> out;
  for (size_t at = 8; at + 12 <= png.size();) {
    const ByteSpan rest = ByteSpan(png).subspan(at);
    const size_t size = big_endian<uint32_t>(rest);
    const auto body = rest.subspan(4, size + 4);
    EXPECT_EQ(big_endian<uint32_t>(rest.subspan(8 + size)),
              crc32(0, body.data(), static_cast<uInt>(body.size())));
    const auto data = body.subspan(4);
    out.push_back({std::string(text_of(body.first(4))), Bytes(data.begin(), data.end())});
    at += 12 + size;
  }
  return out;
}

TEST(Png, ChunksHoldHeaderAndPixels) {
  const auto parts = chunks(encode_png({2, 3, 1, {1, 2, 3, 4, 5, 6}}));
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].type, "IHDR");
  EXPECT_EQ(parts[0].data, (Bytes{0, 0, 0, 2, 0, 0, 0, 3, 8, 0, 0, 0, 0}));
  EXPECT_EQ(parts[1].type, "IDAT");
  Bytes raw(9);
  uLongf size = raw.size();
  ASSERT_EQ(uncompress(raw.data(), &size, parts[1].data.data(), parts[1].data.size()), Z_OK);
  EXPECT_EQ(size, 9U);
  EXPECT_EQ(raw, (Bytes{0, 1, 2, 0, 3, 4, 0, 5, 6})) << "a filter byte before every row";
  EXPECT_EQ(parts[2].type, "IEND");
}

TEST(Png, ChannelsDecideTheColourType) {
  for (const auto& [channels, type] : {std::pair{1, 0}, {2, 4}, {3, 2}, {4, 6}}) {
    const auto png = encode_png({1, 1, channels, Bytes(static_cast<size_t>(channels), 7)});
    EXPECT_EQ(chunks(png)[0].data[9], type);
  }
  EXPECT_THAT(png_data_uri({1, 1, 1, {0}}),
              ::testing::StartsWith("data:image/png;base64,iVBORw0K"));
}

TEST(Png, PixelsThatDoNotFitAreRefused) {
  EXPECT_THROW(encode_png({2, 2, 1, {1, 2, 3}}), std::invalid_argument);
  EXPECT_THROW(encode_png({0, 2, 1, {}}), std::invalid_argument);
  EXPECT_THROW(encode_png({2, 0, 1, {}}), std::invalid_argument);
}

}  // namespace
}  // namespace tessera

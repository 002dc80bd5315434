#include "io/zstd.hpp"

#include <zstd.h>

#include <algorithm>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;
using testing::to_bytes;

Bytes repeated_words(size_t n) {
  Bytes out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>("tessera "[i % 8]);
  return out;
}

TEST(Zstd, WhatIsCompressedComesBack) {
  for (const size_t n : {size_t{0}, size_t{1}, size_t{100'000}})
    for (const int level : {1, 3, 19}) {
      const auto bytes = repeated_words(n);
      const auto frame = zstd_compress(bytes, level);
      ASSERT_THAT(frame, Succeeds());
      if (n > 1) {
        EXPECT_LT(frame->size(), n / 50);
      }
      const auto back = zstd_decompress(*frame, n, "message");
      ASSERT_THAT(back, Succeeds());
      EXPECT_EQ(*back, bytes);
    }
}

TEST(Zstd, LevelsThatAreNoneAreRefused) {
  for (const int level : {-1, 0, 20})
    EXPECT_THAT(zstd_compress(to_bytes("x"), level), FailsWith(Error::kInvalid, "levels 1 to 19"));
}

TEST(Zstd, ContentIsBoundedByWhatIsPermitted) {
  const auto frame = *zstd_compress(Bytes(50'000'000), 1);
  ASSERT_LT(frame.size(), 10'000U) << "a bomb is small";
  EXPECT_THAT(zstd_decompress(frame, 49'999'999, "upload"),
              FailsWith(Error::kInvalid, "upload: the zstd frame announces"));
  EXPECT_THAT(zstd_decompress(frame, 50'000'000, "upload"), Succeeds());
}

// The size in the header is a claim of the sender: too little must not be written past.
TEST(Zstd, AFrameThatLiesAboutItsSizeIsDamaged) {
  // Content of 70,000 bytes has its size in 4 bytes behind magic and descriptor.
  auto frame = *zstd_compress(repeated_words(70'000), 3);
  const Bytes size{0x70, 0x11, 0x01, 0x00};
  const auto at = std::search(frame.begin(), frame.end(), size.begin(), size.end());
  ASSERT_EQ(at - frame.begin(), 5);
  for (const int low : {0x00, 0x6F, 0x71, 0xFF}) {
    frame[5] = static_cast<uint8_t>(low);
    EXPECT_THAT(zstd_decompress(frame, 1 << 20, "upload"),
                FailsWith(Error::kInvalid, "upload: the zstd frame is damaged"));
  }
}

TEST(Zstd, WhatIsNoSingleWholeFrameIsRefused) {
  const auto frame = *zstd_compress(repeated_words(1000), 3);
  EXPECT_THAT(zstd_decompress({}, 10, "m"), FailsWith(Error::kInvalid, "not a zstd frame"));
  EXPECT_THAT(zstd_decompress(to_bytes("safetensors"), 10, "m"),
              FailsWith(Error::kInvalid, "not a zstd frame"));
  const Bytes skippable{0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0};
  EXPECT_THAT(zstd_decompress(skippable, 10, "m"), FailsWith(Error::kInvalid, "not a zstd frame"));
  for (size_t n = 4; n < frame.size(); ++n)
    EXPECT_THAT(zstd_decompress(ByteSpan(frame).first(n), 1000, "m"),
                FailsWith(Error::kInvalid, "damaged"));
  auto twice = frame;
  twice.insert(twice.end(), frame.begin(), frame.end());
  EXPECT_THAT(zstd_decompress(twice, 10'000, "m"), FailsWith(Error::kInvalid, "bytes behind"));
}

TEST(Zstd, AFrameMustAnnounceItsSize) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  const auto bytes = repeated_words(1000);
  Bytes frame(ZSTD_compressBound(bytes.size()));
  frame.resize(ZSTD_compress2(context, frame.data(), frame.size(), bytes.data(), bytes.size()));
  ZSTD_freeCCtx(context);
  EXPECT_THAT(zstd_decompress(frame, 10'000, "m"),
              FailsWith(Error::kInvalid, "does not say how large"));
}

}  // namespace
}  // namespace tessera

#include "io/unpack.hpp"

#include <lzma.h>
#include <zlib.h>

#include "io/file.hpp"
#include "io/sha256.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::put;
using testing::Succeeds;
using testing::TempDir;

Bytes gzip(ByteSpan bytes) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&stream, bytes.size()) + 64);
  stream.next_in = const_cast<uint8_t*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// As the datasets are packed: Delta before LZMA2.
Bytes xz(ByteSpan bytes, uint32_t dictionary = 1 << 16) {
  lzma_options_delta delta{};
  delta.type = LZMA_DELTA_TYPE_BYTE;
  delta.dist = 32;
  lzma_options_lzma lzma;
  lzma_lzma_preset(&lzma, 1);
  lzma.dict_size = dictionary;
  const lzma_filter filters[] = {
      {LZMA_FILTER_DELTA, &delta}, {LZMA_FILTER_LZMA2, &lzma}, {LZMA_VLI_UNKNOWN, nullptr}};
  Bytes out(lzma_stream_buffer_bound(bytes.size()));
  size_t size = 0;
  EXPECT_EQ(lzma_stream_buffer_encode(const_cast<lzma_filter*>(filters), LZMA_CHECK_CRC64, nullptr,
                                      bytes.data(), bytes.size(), out.data(), &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

Bytes pattern(size_t n) {
  Bytes out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>((i * i + i / 7) >> 3);
  return out;
}

Bytes joined(Bytes a, ByteSpan b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

constexpr size_t kUnpackLimit = 1 << 22;

TEST(Unpack, GzipAndXzGiveBackWhatWentIn) {
  for (const size_t n : {size_t{0}, size_t{1}, size_t{65536}, size_t{200001}}) {
    const Bytes plain = pattern(n);
    EXPECT_EQ(*unpack(gzip(plain), kUnpackLimit, "x"), plain) << n;
    EXPECT_EQ(*unpack(xz(plain), kUnpackLimit, "x"), plain) << n;
    EXPECT_EQ(*unpack(plain, kUnpackLimit, "x"), plain) << n;
  }
}

TEST(Unpack, RoomIsMadeOnceForWhatAFileSaysItHolds) {
  const Bytes content(3'000'001, uint8_t{7});
  for (const auto& packed : {gzip(content), xz(content)}) {
    const auto unpacked = unpack(packed, kUnpackLimit, "x");
    ASSERT_THAT(unpacked, Succeeds());
    EXPECT_EQ(unpacked->size(), content.size());
    EXPECT_EQ(unpacked->capacity(), content.size());
  }
}

TEST(Unpack, GluedStreamsAreOneFile) {
  const Bytes a = pattern(1000), b = pattern(77);
  EXPECT_EQ(*unpack(joined(gzip(a), gzip(b)), kUnpackLimit, "x"), joined(a, b));
  EXPECT_EQ(*unpack(joined(xz(a), xz(b)), kUnpackLimit, "x"), joined(a, b));
}

TEST(Unpack, EveryTruncationIsAnError) {
  const Bytes plain = pattern(300);
  for (const Bytes& packed : {gzip(plain), xz(plain)})
    for (size_t n = 6; n < packed.size(); ++n)
      EXPECT_THAT(unpack(ByteSpan(packed).first(n), kUnpackLimit, "x"),
                  FailsWith(Error::kInvalid, "end too early"))
          << n << " of " << packed.size();
}

TEST(Unpack, NoChangedByteGivesOtherContents) {
  const Bytes plain = pattern(300);
  for (Bytes packed : {xz(plain), gzip(plain)}) {
    size_t noticed = 0;
    for (size_t i = 6; i < packed.size(); ++i) {
      packed[i] ^= 0x10;
      const auto result = unpack(packed, kUnpackLimit, "x");
      // A few bits (gzip's date, spare code lengths) may change without changing the contents.
      EXPECT_TRUE(!result.ok() || *result == plain) << "byte " << i;
      noticed += result.ok() ? 0 : 1;
      packed[i] ^= 0x10;
    }
    EXPECT_GT(noticed, packed.size() - 16);
  }
}

TEST(Unpack, GarbageAfterTheEndIsAnError) {
  const Bytes plain = pattern(300);
  EXPECT_THAT(unpack(joined(gzip(plain), bytes_of("garbage")), kUnpackLimit, "x"),
              FailsWith(Error::kInvalid, "garbage after the packed data"));
  EXPECT_THAT(unpack(joined(xz(plain), bytes_of("garbage!")), kUnpackLimit, "x"),
              FailsWith(Error::kInvalid, "garbage after the packed data"));
  EXPECT_EQ(*unpack(joined(xz(plain), Bytes(8, 0)), kUnpackLimit, "x"), plain);  // xz's own padding
  EXPECT_FALSE(unpack(joined(xz(plain), Bytes(7, 0)), kUnpackLimit, "x").ok());
}

TEST(Unpack, StopsAtTheLimit) {
  const Bytes zeros(10'000'000, 0);
  for (const Bytes& packed : {gzip(zeros), xz(zeros)}) {
    EXPECT_LT(packed.size(), 50'000u);
    EXPECT_THAT(unpack(packed, zeros.size() - 1, "bomb"), FailsWith(Error::kInvalid, "bomb"));
    EXPECT_THAT(unpack(packed, 0, "bomb"), FailsWith(Error::kInvalid, "bomb"));
    EXPECT_THAT(unpack(packed, zeros.size(), "fits"), Succeeds());
  }
  EXPECT_THAT(unpack(pattern(11), 10, "plain"), FailsWith(Error::kInvalid, "plain"));
}

TEST(Unpack, RefusesAHugeDictionary) {
  EXPECT_THAT(unpack(xz(pattern(10), uint32_t{1} << 30), kUnpackLimit, "x"),
              FailsWith(Error::kInvalid, "to unpack"));
}

TEST(ReadUnpacked, GoesByContentsNotByName) {
  TempDir dir;
  const Bytes plain = pattern(5000);
  put(dir.file("plain.gz"), plain);
  put(dir.file("gzip"), gzip(plain));
  put(dir.file("xz.gz"), xz(plain));
  for (const char* name : {"plain.gz", "gzip", "xz.gz"}) {
    EXPECT_EQ(*read_unpacked(dir.file(name), 5000), plain) << name;
    EXPECT_THAT(read_unpacked(dir.file(name), 4999), FailsWith(Error::kInvalid, dir.file(name)));
  }
  EXPECT_THAT(read_unpacked(dir.file("none"), 1), FailsWith(Error::kNotFound, "none"));
}

TEST(ReadUnpacked, RealFilesHaveTheirKnownDigests) {
  struct Known {
    const char *file, *sha256;
  };
  const Known known[] = {{"mnist/t10k-labels-idx1-ubyte.gz",
                          "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
                         {"mnist-m/mnist_m_test.bin.xz",
                          "c63ce8b813305d21b530018613c043fe498ec071cf5e37fc43f63fe090d51234"}};
  for (const auto& [file, sha256] : known) {
    const auto path = testing::data_file(file);
    if (!path) GTEST_SKIP() << "no " << file << "; set TESSERA_DATA to run this";
    const auto bytes = read_unpacked(*path, 20'000'000);
    ASSERT_THAT(bytes, Succeeds());
    EXPECT_EQ(sha256_hex(*bytes), sha256);
  }
}

}  // namespace
}  // namespace tessera

#include "io/zip.hpp"

#include <zlib.h>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

constexpr size_t kZipLimit = 1 << 20;

Bytes deflated(ByteSpan bytes) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<uint8_t*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// One member laid out by hand, with every field open to lies.
struct Layout {
  std::string name = "a";
  Bytes plain = testing::to_bytes("hello hello hello hello");
  bool deflate = false, zip64 = false, zip64_end = false;
  uint16_t flags = 0, method = 0;
  uint32_t crc_change = 0;
  int64_t size_change = 0;
  std::string comment, local_name;

  Bytes build() const {
    const Bytes packed = deflate ? deflated(plain) : plain;
    const auto how = static_cast<uint16_t>(method ? method : deflate ? 8 : 0);
    const auto crc =
        static_cast<uint32_t>(crc32(0, plain.data(), static_cast<uInt>(plain.size()))) ^ crc_change;
    const uint64_t size = plain.size() + static_cast<uint64_t>(size_change);
    Bytes out;
    const auto u16 = [&](uint64_t v) { append_little_endian(out, static_cast<uint16_t>(v)); };
    const auto u32 = [&](uint64_t v) { append_little_endian(out, static_cast<uint32_t>(v)); };
    const auto u64 = [&](uint64_t v) { append_little_endian(out, v); };
    const auto text = [&](const auto& t) { out.insert(out.end(), t.begin(), t.end()); };
    const std::string first_name = local_name.empty() ? name : local_name;
    u32(0x04034b50), u16(20), u16(flags), u16(how), u32(0), u32(crc);
    // NumPy writes the local header before it knows the sizes: always as zip64.
    u32(zip64 ? 0xFFFFFFFF : packed.size()), u32(zip64 ? 0xFFFFFFFF : size);
    u16(first_name.size()), u16(zip64 ? 20 : 0), text(first_name);
    if (zip64) u16(1), u16(16), u64(size), u64(packed.size());
    text(packed);
    const size_t directory = out.size();
    u32(0x02014b50), u16(20), u16(20), u16(flags), u16(how), u32(0), u32(crc);
    u32(zip64 ? 0xFFFFFFFF : packed.size()), u32(zip64 ? 0xFFFFFFFF : size);
    u16(name.size()), u16(zip64 ? 28 : 0), u16(0), u16(0), u16(0), u32(0);
    u32(zip64 ? 0xFFFFFFFF : 0), text(name);
    if (zip64) u16(1), u16(24), u64(size), u64(packed.size()), u64(0);
    const size_t end = out.size();
    if (zip64_end) {
      u32(0x06064b50), u64(44), u16(45), u16(45), u32(0), u32(0), u64(1), u64(1);
      u64(end - directory), u64(directory);
      u32(0x07064b50), u32(0), u64(end), u32(1);
    }
    u32(0x06054b50), u16(0), u16(0), u16(zip64_end ? 0xFFFF : 1), u16(zip64_end ? 0xFFFF : 1);
    u32(zip64_end ? 0xFFFFFFFF : end - directory), u32(zip64_end ? 0xFFFFFFFF : directory);
    u16(comment.size()), text(comment);
    return out;
  }
};

Result<std::vector<ZipMember>> read(const Layout& layout) {
  return read_zip(layout.build(), kZipLimit, "z");
}

TEST(Zip, ReadsStoredDeflatedAndZip64) {
  for (const bool deflate : {false, true})
    for (const bool zip64 : {false, true})
      for (const bool zip64_end : {false, true}) {
        Layout layout{.deflate = deflate, .zip64 = zip64, .zip64_end = zip64_end};
        layout.comment = "a comment";
        const auto members = read(layout);
        ASSERT_THAT(members, Succeeds()) << deflate << zip64 << zip64_end;
        ASSERT_EQ(members->size(), 1u);
        EXPECT_EQ((*members)[0].name, "a");
        EXPECT_EQ((*members)[0].data, layout.plain);
      }
}

TEST(Zip, WriterAndReaderAgree) {
  const Bytes a(1000, 'a'), none;
  const auto zip = write_zip({{"b/a", a}, {"none", none}});
  ASSERT_THAT(zip, Succeeds());
  EXPECT_EQ(*zip, *write_zip({{"b/a", a}, {"none", none}}));
  const auto members = read_zip(*zip, 1000, "z");
  ASSERT_THAT(members, Succeeds());
  ASSERT_EQ(members->size(), 2u);
  EXPECT_EQ((*members)[0].data, a);
  EXPECT_EQ((*members)[1].name, "none");
  EXPECT_THAT(read_zip(*zip, 999, "z"), FailsWith(Error::kInvalid, "more than"));
  EXPECT_THAT(write_zip({{"a", a}, {"a", a}}), FailsWith(Error::kInvalid, "taken"));
  EXPECT_EQ(read_zip(*write_zip({}), 0, "z")->size(), 0u);
}

TEST(Zip, EveryTruncationAndEveryChangedBodyByteIsAnError) {
  for (const bool deflate : {false, true}) {
    Layout layout{.deflate = deflate, .zip64 = true, .zip64_end = true};
    Bytes file = layout.build();
    for (size_t n = 0; n < file.size(); ++n)
      EXPECT_THAT(read_zip(ByteSpan(file).first(n), kZipLimit, "z"),
                  FailsWith(Error::kInvalid, "z"));
    const size_t body = 30 + 1 + 20;
    const size_t packed = deflate ? deflated(layout.plain).size() : layout.plain.size();
    for (size_t i = body; i < body + packed; ++i) {
      file[i] ^= 0x20;
      EXPECT_FALSE(read_zip(file, kZipLimit, "z").ok()) << i;
      file[i] ^= 0x20;
    }
  }
}

TEST(Zip, RefusesLies) {
  EXPECT_THAT(read({.crc_change = 1}), FailsWith(Error::kInvalid, "CRC-32"));
  EXPECT_THAT(read({.size_change = 1}), FailsWith(Error::kInvalid, "23 bytes where"));
  EXPECT_THAT(read({.deflate = true, .size_change = 1}), FailsWith(Error::kInvalid, "23 bytes"));
  EXPECT_THAT(read({.deflate = true, .size_change = -1}), FailsWith(Error::kInvalid, "more than"));
  EXPECT_THAT(read({.zip64 = true, .size_change = int64_t{1} << 60}),
              FailsWith(Error::kInvalid, "more than"));
  EXPECT_THAT(read({.flags = 1}), FailsWith(Error::kInvalid, "encrypted"));
  EXPECT_THAT(read({.method = 12}), FailsWith(Error::kInvalid, "method 12"));
  EXPECT_THAT(read({.local_name = "b"}), FailsWith(Error::kInvalid, "member 'a': damaged"));
  EXPECT_THAT(read_zip({}, kZipLimit, "z"), FailsWith(Error::kInvalid, "no end record"));
  EXPECT_THAT(read_zip(Bytes(100, 'P'), kZipLimit, "z"),
              FailsWith(Error::kInvalid, "no end record"));
}

TEST(Zip, RefusesADirectoryOutsideTheFile) {
  Bytes file = Layout().build();
  const size_t end = file.size() - 22;
  file[end + 16] ^= 0x80;  // where the directory begins
  EXPECT_THAT(read_zip(file, kZipLimit, "z"), FailsWith(Error::kInvalid, "outside the file"));
  file[end + 16] ^= 0x80;
  file[end + 10] = 2;  // members
  EXPECT_THAT(read_zip(file, kZipLimit, "z"), FailsWith(Error::kInvalid, "split"));
  file[end + 8] = 2;
  EXPECT_THAT(read_zip(file, kZipLimit, "z"), FailsWith(Error::kInvalid, "entry 2"));
}

TEST(Zip, RefusesMembersThatShareBytes) {
  // Two directory entries for the same local header.
  Bytes file = Layout().build();
  const size_t end = file.size() - 22, entry = 46 + 1;
  const Bytes again(file.begin() + static_cast<ptrdiff_t>(end - entry),
                    file.begin() + static_cast<ptrdiff_t>(end));
  const auto two = [&](bool rename) {
    Bytes out = file;
    out.insert(out.begin() + static_cast<ptrdiff_t>(end), again.begin(), again.end());
    const size_t at = out.size() - 22;
    out[at + 8] = out[at + 10] = 2;
    out[at + 12] = static_cast<uint8_t>(2 * entry);
    if (rename) out[at - 1] = 'b';
    return out;
  };
  EXPECT_THAT(read_zip(two(false), kZipLimit, "z"),
              FailsWith(Error::kInvalid, "'a' is there twice"));
  EXPECT_THAT(read_zip(two(true), kZipLimit, "z"), FailsWith(Error::kInvalid, "'b': damaged"));
}

}  // namespace
}  // namespace tessera

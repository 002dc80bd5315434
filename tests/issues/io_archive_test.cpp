// Every level of a nested archive once got the whole allowance of unpacked bytes anew, so a small
// file could ask for any amount of memory, and only zip files counted as levels.
#include <zlib.h>

#include "io/archive.hpp"
#include "io/testing.hpp"
#include "io/zip.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

constexpr size_t kSize = 60'000;

Bytes gzip(ByteSpan bytes) {
  Bytes out(bytes.size() + 1000);
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = const_cast<uint8_t*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

using Members = std::vector<std::pair<std::string, Bytes>>;

Bytes zip(const Members& members) {
  std::vector<std::pair<std::string, ByteSpan>> spans;
  for (const auto& [name, data] : members) spans.emplace_back(name, data);
  return *write_zip(spans);
}

Bytes tar(const Members& members) {
  Bytes out;
  for (const auto& [name, data] : members) {
    std::string header(512, '\0');
    const auto put = [&](size_t at, const std::string& text) {
      header.replace(at, text.size(), text);
    };
    put(0, name), put(124, fmt::format("{:011o}", data.size())), put(148, "        0");
    put(257, "ustar"), put(263, "00");
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<uint8_t>(c);
    put(148, fmt::format("{:06o}", sum)), header[154] = '\0';
    out.insert(out.end(), header.begin(), header.end());
    out.insert(out.end(), data.begin(), data.end());
    out.resize((out.size() + 511) / 512 * 512);
  }
  out.resize(out.size() + 1024);
  return out;
}

Result<ArchiveFiles> find(ByteSpan file, const std::string& name, size_t max_bytes) {
  const auto wanted = [](const std::string& one) { return one.ends_with(".bin"); };
  return find_in_archive(file, name, wanted, {.max_bytes = max_bytes});
}

TEST(NestedArchives, ZipsInAZipShareOneAllowance) {
  const Bytes data(kSize, 7);
  const auto inner = zip({{"x/a.bin", data}}), other = zip({{"../b.bin", data}});
  const auto outer = zip({{"1.zip", inner}, {"2.zip", other}, {"readme", Bytes(10)}});
  const size_t outside = inner.size() + other.size() + 10, whole = outside + 2 * kSize;
  const auto fits = find(outer, "dir/outer.zip", whole);
  ASSERT_THAT(fits, Succeeds());
  ASSERT_EQ(fits->size(), 2u);
  EXPECT_EQ(fits->at("a.bin"), data);
  EXPECT_EQ(fits->at("b.bin"), data);
  EXPECT_THAT(
      find(outer, "dir/outer.zip", whole - 1),
      FailsWith(Error::kInvalid,
                "dir/outer.zip, member '2.zip', member '../b.bin': unpacks to 60.0 kB, more "
                "than the 60.0 kB left"));
  EXPECT_THAT(find(outer, "dir/outer.zip", outside + kSize / 2),
              FailsWith(Error::kInvalid,
                        "member '1.zip', member 'x/a.bin': unpacks to 60.0 kB, "
                        "more than the 30.0 kB left"));
  EXPECT_THAT(find(outer, "dir/outer.zip", inner.size()),
              FailsWith(Error::kInvalid, "dir/outer.zip, member '2.zip': unpacks to"));
}

TEST(NestedArchives, PackedMembersOfAPackedTarShareOneAllowance) {
  const Bytes zeros(kSize);
  Members members;
  for (const char* name : {"a.bin.gz", "b.bin.gz", "c.bin.gz"})
    members.emplace_back(name, gzip(zeros));
  const auto archive = tar(members);
  const auto packed = gzip(archive);
  ASSERT_LT(packed.size(), 2000u) << "small outside, large inside";
  const size_t whole = archive.size() + 3 * kSize;
  const auto fits = find(packed, "set.tar.gz", whole);
  ASSERT_THAT(fits, Succeeds());
  EXPECT_EQ(fits->at("c.bin"), zeros);
  EXPECT_THAT(find(packed, "set.tar.gz", whole - 1),
              FailsWith(Error::kInvalid, "set.tar.gz, member 'c.bin.gz': holds more than the"));
  EXPECT_THAT(find(packed, "set.tar.gz", archive.size() + kSize),
              FailsWith(Error::kInvalid, "set.tar.gz, member 'b.bin.gz': holds more than the"));
  EXPECT_THAT(find(packed, "set.tar.gz", archive.size() - 1),
              FailsWith(Error::kInvalid, "set.tar.gz: holds more than the"));
}

TEST(NestedArchives, MembersAsTheyAreCountAsWell) {
  const auto archive = tar({{"a.bin", Bytes(kSize)}, {"b.bin", Bytes(kSize)}});
  EXPECT_THAT(find(archive, "set.tar", 2 * kSize), Succeeds());
  EXPECT_THAT(find(archive, "set.tar", 2 * kSize - 1),
              FailsWith(Error::kInvalid, "set.tar, member 'b.bin': holds more than the"));
}

TEST(NestedArchives, DepthIsBoundedWithASentence) {
  const Bytes data(10, 1);
  const auto two = zip({{"2.zip", zip({{"a.bin", data}})}});
  EXPECT_EQ(find(two, "x.zip", kSize)->at("a.bin"), data);
  EXPECT_THAT(find(zip({{"1.zip", two}}), "x.zip", kSize),
              FailsWith(Error::kInvalid,
                        "x.zip, member '1.zip', member '2.zip': an archive inside 2 archives is "
                        "not opened; unpack the outer ones and give this one"));
}

TEST(NestedArchives, TarsAreLevelsToo) {
  // Named like a wanted file, so each is looked into.
  Bytes archive = tar({{"a.bin", Bytes(10, 1)}});
  archive = tar({{"a.bin", archive}});
  EXPECT_EQ(find(archive, "x.tar", 1 << 20)->at("a.bin"), Bytes(10, 1));
  for (int level = 0; level < 40; ++level) archive = tar({{"a.bin", gzip(archive)}});
  EXPECT_THAT(find(archive, "x.tar", 1 << 20),
              FailsWith(Error::kInvalid,
                        "x.tar, member 'a.bin', member 'a.bin': an archive inside 2 archives"));
}

}  // namespace
}  // namespace tessera

#include "io/tar.hpp"

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

struct Member {
  std::string name, contents;
  char type = '0';
  std::string prefix = "", size_field = "";
};

void set(Bytes& header, size_t at, std::string_view text) {
  std::copy(text.begin(), text.end(), header.begin() + static_cast<ptrdiff_t>(at));
}

Bytes tar(const std::vector<Member>& members, size_t end_blocks = 2) {
  Bytes out;
  for (const auto& member : members) {
    Bytes header(512, 0);
    set(header, 0, member.name);
    set(header, 124,
        member.size_field.empty() ? fmt::format("{:011o}", member.contents.size())
                                  : member.size_field);
    set(header, 148, "        ");
    header[156] = static_cast<uint8_t>(member.type);
    set(header, 257, "ustar");
    set(header, 263, "00");
    set(header, 345, member.prefix);
    unsigned sum = 0;
    for (const uint8_t byte : header) sum += byte;
    set(header, 148, fmt::format("{:06o}", sum));
    header[154] = 0;
    out.insert(out.end(), header.begin(), header.end());
    out.insert(out.end(), member.contents.begin(), member.contents.end());
    out.resize((out.size() + 511) / 512 * 512, 0);
  }
  out.resize(out.size() + end_blocks * 512, 0);
  return out;
}

std::vector<std::pair<std::string, std::string>> listed(const Bytes& file) {
  const auto members = parse_tar(file, "x.tar");
  EXPECT_THAT(members, Succeeds());
  std::vector<std::pair<std::string, std::string>> out;
  if (members.ok())
    for (const auto& member : *members) out.emplace_back(member.name, text_of(member.data));
  return out;
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

TEST(Tar, ListsRegularFiles) {
  const std::string long_text(1000, 'q');
  EXPECT_EQ(listed(tar({{"dir/", "", '5'},
                        {"dir/a", "hello"},
                        {"link", "", '2'},
                        {"empty", ""},
                        {"b", long_text, '0', "deep/er"}})),
            (Pairs{{"dir/a", "hello"}, {"empty", ""}, {"deep/er/b", long_text}}));
  EXPECT_EQ(listed(tar({})), Pairs{});
  EXPECT_EQ(listed(tar({{"a", "1"}}, 1)), (Pairs{{"a", "1"}}));
}

TEST(Tar, LongNamesOfGnuAndPax) {
  const std::string name(200, 'n');
  EXPECT_EQ(
      listed(tar(
          {{"././@LongLink", name + std::string(1, '\0'), 'L'}, {"short", "x"}, {"other", "y"}})),
      (Pairs{{name, "x"}, {"other", "y"}}));
  const std::string record = "27 path=some/where/else/ab\n";
  ASSERT_EQ(record.size(), 27u);
  EXPECT_EQ(listed(tar({{"pax", "12 foo=bar!\n" + record, 'x'}, {"short", "x"}, {"other", "y"}})),
            (Pairs{{"some/where/else/ab", "x"}, {"other", "y"}}));
  // The size of the pax record wins over the header's.
  EXPECT_EQ(listed(tar({{"pax", "9 size=2\n", 'x'}, {"s", "xyz"}})), (Pairs{{"s", "xy"}}));
}

TEST(Tar, SizesInBase256) {
  std::string size(12, '\0');
  size[0] = '\x80', size[11] = 3;
  EXPECT_EQ(listed(tar({{"a", "xyz", '0', "", size}})), (Pairs{{"a", "xyz"}}));
  EXPECT_THAT(parse_tar(tar({{"a", "xyz", '0', "", std::string(12, '\xFF')}}), "x.tar"),
              FailsWith(Error::kInvalid, "not a number"));
  size.assign(12, '\xFF'), size[0] = '\x80';
  EXPECT_THAT(parse_tar(tar({{"a", "xyz", '0', "", size}}), "x.tar"),
              FailsWith(Error::kInvalid, "not a number"));
}

TEST(Tar, EveryTruncationIsAnError) {
  const Bytes file = tar({{"a", "hello"}, {"b", std::string(600, 'b')}}, 1);
  for (size_t n = 0; n < file.size(); ++n)
    ASSERT_THAT(parse_tar(ByteSpan(file).first(n), "x.tar"), FailsWith(Error::kInvalid, "x.tar"))
        << n;
}

TEST(Tar, RefusesDamage) {
  Bytes file = tar({{"a", "hello"}});
  file[0] ^= 1;
  EXPECT_THAT(parse_tar(file, "x.tar"), FailsWith(Error::kInvalid, "wrong checksum"));
  EXPECT_THAT(parse_tar(tar({{"a", "x", '0', "", "77777777777"}}), "x.tar"),
              FailsWith(Error::kInvalid, "runs past the end"));
  EXPECT_THAT(parse_tar(tar({{"a", "x", '0', "", "12x"}}), "x.tar"),
              FailsWith(Error::kInvalid, "not a number"));
  for (const char* pax : {"99 path=x\n", "path=x\n", "8 path=x\n", "5 ab\n", "0 a=b\n",
                          "11 size=1x\n\n", "18446744073709551616 a=b\n"})
    EXPECT_THAT(parse_tar(tar({{"pax", pax, 'x'}, {"a", "b"}}), "x.tar"),
                FailsWith(Error::kInvalid, "malformed pax"))
        << pax;
}

}  // namespace
}  // namespace tessera

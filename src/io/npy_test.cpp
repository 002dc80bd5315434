#include "io/npy.hpp"

#include <cmath>

#include "io/testing.hpp"
#include "io/zip.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::Succeeds;

constexpr size_t kNpzLimit = 1 << 20;

Bytes npy(std::string_view header, ByteSpan data, uint8_t version = 1) {
  Bytes out = testing::to_bytes("\x93NUMPY");
  out.push_back(version), out.push_back(0);
  if (version == 1)
    append_little_endian(out, static_cast<uint16_t>(header.size()));
  else
    append_little_endian(out, static_cast<uint32_t>(header.size()));
  out.insert(out.end(), header.begin(), header.end());
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

std::string dictionary(std::string_view descr, std::string_view fortran, std::string_view shape) {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}   \n", descr, fortran,
                     shape);
}

TEST(Npy, ReadsAllVersionsAndTypes) {
  const Bytes data{1, 2, 3, 4, 5, 6, 7, 8};
  for (const uint8_t version : {1, 2, 3}) {
    const auto array = parse_npy(npy(dictionary("<i4", "False", "(2,)"), data, version), "x");
    ASSERT_THAT(array, Succeeds()) << int{version};
    EXPECT_EQ(array->dtype, DType::kI32);
    EXPECT_THAT(array->shape, ElementsAre(2));
    EXPECT_EQ(array->data, data);
  }
  const std::pair<const char*, DType> types[] = {
      {"<f8", DType::kF64}, {"<i8", DType::kI64}, {"|u1", DType::kU8}, {"<f4", DType::kF32},
      {"<f2", DType::kF16}, {"<i2", DType::kI16}, {"|i1", DType::kI8}, {"|b1", DType::kBool}};
  for (const auto& [descr, dtype] : types) {
    const auto shape = fmt::format("({}, 1)", 8 / item_size(dtype));
    const auto array = parse_npy(npy(dictionary(descr, "False", shape), data), "x");
    ASSERT_THAT(array, Succeeds()) << descr;
    EXPECT_EQ(array->dtype, dtype);
  }
  EXPECT_THAT(parse_npy(npy(dictionary("<f8", "False", "()"), data), "x")->shape, ElementsAre());
  EXPECT_THAT(parse_npy(npy(dictionary("<f8", "True", "(0, 3)"), {}), "x")->shape,
              ElementsAre(0, 3));
}

// The numbers of an array of four bytes.
std::vector<double> numbers(const char* descr, const Bytes& data, int64_t count) {
  const auto array =
      parse_npy(npy(dictionary(descr, "False", fmt::format("({},)", count)), data), "x");
  EXPECT_THAT(array, Succeeds()) << descr;
  std::vector<double> out;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) out.push_back(number_at(*array, i));
  return out;
}

TEST(Npy, NumbersOfEveryType) {
  const Bytes data{0xFF, 0x01, 0x00, 0x80};
  EXPECT_THAT(numbers("|u1", data, 4), ElementsAre(255, 1, 0, 128));
  EXPECT_THAT(numbers("|i1", data, 4), ElementsAre(-1, 1, 0, -128));
  EXPECT_THAT(numbers("|b1", {0, 1, 1, 0}, 4), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(numbers("<i2", data, 2), ElementsAre(511, -32768));
  EXPECT_THAT(numbers("<u2", data, 2), ElementsAre(511, 32768));
  EXPECT_THAT(numbers("<i4", data, 1), ElementsAre(-2147483137));
  EXPECT_THAT(numbers("<u4", data, 1), ElementsAre(2147484159));
  EXPECT_THAT(numbers("<f4", {0, 0, 0xA0, 0xC0}, 1), ElementsAre(-5));
  EXPECT_THAT(numbers("<f8", {0, 0, 0, 0, 0, 0, 0xE0, 0x3F}, 1), ElementsAre(0.5));
  EXPECT_THAT(numbers("<i8", {0xFE, 255, 255, 255, 255, 255, 255, 255}, 1), ElementsAre(-2));
}

TEST(Npy, HalfPrecisionByItsBits) {
  // 1, -2, the largest, the smallest above 0, the largest below normal ones, 1/3, -0, infinity.
  Bytes data;
  for (const uint16_t bits : {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x03FF, 0x3555, 0x8000, 0x7C00})
    append_little_endian(data, bits);
  EXPECT_THAT(numbers("<f2", data, 8),
              ElementsAre(1, -2, 65504, 5.9604644775390625e-8, 6.097555160522461e-5, 0.333251953125,
                          0, INFINITY));
  EXPECT_TRUE(std::isnan(numbers("<f2", {0x01, 0x7C}, 1)[0]));
}

TEST(Npy, ReadsAndWritesText) {
  Bytes data;
  for (const uint32_t c : std::u32string(U"no\0\0é😀xy\0\0\0\0", 12)) append_little_endian(data, c);
  const auto array = parse_npy(npy(dictionary("<U4", "False", "(3,)"), data), "x");
  ASSERT_THAT(array, Succeeds());
  EXPECT_TRUE(array->is_text);
  EXPECT_THAT(array->texts, ElementsAre("no", "é😀xy", ""));
  EXPECT_EQ(element_name(*array), "text");
  const auto written = write_npy(*array);
  ASSERT_THAT(written, Succeeds());
  EXPECT_THAT(text_of(*written), ::testing::HasSubstr("'<U4'"));
  EXPECT_EQ(parse_npy(*written, "x")->texts, array->texts);
  // By columns, and as bytes.
  const auto bytes = parse_npy(
      npy(dictionary("|S2", "True", "(2, 2)"), testing::to_bytes({"a\0b\0cddd", 8})), "x");
  ASSERT_THAT(bytes, Succeeds());
  EXPECT_THAT(bytes->texts, ElementsAre("a", "cd", "b", "dd"));
  EXPECT_THAT(parse_npy(npy(dictionary("|S3", "False", "(0,)"), {}), "x")->texts, ElementsAre());
}

TEST(Npy, RefusesTextThatIsNone) {
  const auto text = [](const char* descr, const Bytes& data) {
    return parse_npy(npy(dictionary(descr, "False", "(1,)"), data), "x");
  };
  EXPECT_THAT(text("|S2", {0xE9, 'a'}), FailsWith(Error::kInvalid, "element 0 is not text"));
  EXPECT_THAT(text("|S3", {'a', 0, 'b'}), FailsWith(Error::kInvalid, "element 0"));
  EXPECT_THAT(text("<U1", {0, 0xD8, 0, 0}), FailsWith(Error::kInvalid, "element 0"));
  EXPECT_THAT(text("<U1", {0, 0, 0x11, 0}), FailsWith(Error::kInvalid, "element 0"));
  EXPECT_THAT(text("<U2", {65, 0, 0, 0}), FailsWith(Error::kInvalid, "4 bytes of data"));
  // Elements of no bytes would make any shape fit.
  EXPECT_THAT(parse_npy(npy(dictionary("<U0", "False", "(1000000000000,)"), {}), "x"),
              FailsWith(Error::kInvalid, "type '<U0'"));
  EXPECT_THAT(write_npy({DType::kU8, {1}, {}, true, {"\xFF"}}),
              FailsWith(Error::kInvalid, "UTF-8"));
  EXPECT_THAT(write_npy({DType::kU8, {2}, {}, true, {"a"}}), FailsWith(Error::kInvalid, "1 texts"));
}

TEST(Npy, FortranOrderBecomesCOrder) {
  // a[i][j][k] = 100i + 10j + k with shape (2, 3, 2); the file has i fastest.
  Bytes fortran, c;
  for (uint8_t k = 0; k < 2; ++k)
    for (uint8_t j = 0; j < 3; ++j)
      for (uint8_t i = 0; i < 2; ++i) append_little_endian<uint32_t>(fortran, 100 * i + 10 * j + k);
  for (uint8_t i = 0; i < 2; ++i)
    for (uint8_t j = 0; j < 3; ++j)
      for (uint8_t k = 0; k < 2; ++k) append_little_endian<uint32_t>(c, 100 * i + 10 * j + k);
  const auto array = parse_npy(npy(dictionary("<i4", "True", "(2, 3, 2)"), fortran), "x");
  ASSERT_THAT(array, Succeeds());
  EXPECT_EQ(array->data, c);
}

TEST(Npy, WritesWhatNumPyWrites) {
  const auto bytes = write_npy({DType::kU8, {3}, {1, 2, 3}});
  ASSERT_THAT(bytes, Succeeds());
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
  header.resize(117, ' ');
  EXPECT_EQ(text_of(*bytes), std::string("\x93NUMPY\x01\0v\0", 10) + header + "\n\x01\x02\x03");
  EXPECT_THAT(write_npy({DType::kBF16, {1}, {1, 2}}), FailsWith(Error::kInvalid, "BF16"));
  EXPECT_THAT(write_npy({DType::kU8, {2}, {1}}), FailsWith(Error::kInvalid, "1 bytes"));
}

TEST(Npy, EveryTruncationIsAnError) {
  for (const uint8_t version : {1, 2}) {
    const Bytes file = npy(dictionary("<f8", "False", "(2,)"), Bytes(16), version);
    for (size_t n = 0; n < file.size(); ++n)
      EXPECT_THAT(parse_npy(ByteSpan(file).first(n), "name"), FailsWith(Error::kInvalid, "name"));
  }
}

TEST(Npy, RefusesOtherTypesAndDamagedHeaders) {
  for (const char* descr :
       {">f4", "|O", ">U1", "<c8", "|V4", "<u8", "<U", "<U-1", "|S99999999", "=f4", ""})
    EXPECT_THAT(parse_npy(npy(dictionary(descr, "False", "(1,)"), Bytes(4)), "x"),
                FailsWith(Error::kInvalid, fmt::format("type '{}'", descr)));
  EXPECT_THAT(
      parse_npy(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", Bytes(4)),
                "x"),
      FailsWith(Error::kInvalid, "type '[…]'"));
  EXPECT_THAT(parse_npy(npy(dictionary("|u1", "False", "(4,)"), Bytes(4), 4), "x"),
              FailsWith(Error::kInvalid, "version 4"));
  EXPECT_THAT(parse_npy(npy(dictionary("|u1", "False", "(3037000500, 3037000500)"), Bytes(4)), "x"),
              FailsWith(Error::kInvalid, "shape"));
  Bytes huge = npy(dictionary("|u1", "False", "(4,)"), Bytes(4), 2);
  huge[11] = 0xFF;
  EXPECT_THAT(parse_npy(huge, "x"), FailsWith(Error::kInvalid, "header"));
  for (const char* header :
       {"", "{", "{}", "[]", "{'descr': '<f4'}", "{'descr': '<f4', 'descr': '<f4'}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), 'more': 1}",
        "{'descr': '|u1', 'fortran_order': 0, 'shape': (4,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-4,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': 4}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (4,",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (4,)} x",
        "{'descr': '|u1 'fortran_order': False 'shape': (4,)}"})
    EXPECT_THAT(parse_npy(npy(header, Bytes(4)), "x"), FailsWith(Error::kInvalid, "not valid"))
        << header;
  std::string many = "(";
  for (int i = 0; i < 33; ++i) many += "1,";
  EXPECT_THAT(parse_npy(npy(dictionary("|u1", "False", many + ")"), Bytes(1)), "x"),
              FailsWith(Error::kInvalid, "not valid"));
}

TEST(Npz, SurvivesARoundTripThroughAFile) {
  testing::TempDir dir;
  std::map<std::string, Npy> arrays;
  arrays["x"] = {DType::kF32, {2, 1}, Bytes{0, 0, 128, 63, 0, 0, 0, 64}};
  arrays["labels"] = {DType::kI64, {0}, {}};
  ASSERT_THAT(write_npz(dir.file("a.npz"), arrays), Succeeds());
  const auto back = read_npz(dir.file("a.npz"));
  ASSERT_THAT(back, Succeeds());
  ASSERT_EQ(back->size(), 2u);
  EXPECT_EQ(back->at("x").shape, arrays["x"].shape);
  EXPECT_EQ(back->at("x").data, arrays["x"].data);
  EXPECT_EQ(back->at("labels").dtype, DType::kI64);
  EXPECT_THAT(read_npz(dir.file("none")), FailsWith(Error::kNotFound, "none"));
}

TEST(Npz, NamesTheMemberThatIsWrong) {
  const Bytes junk = testing::to_bytes("junk, longer than ten bytes");
  EXPECT_THAT(parse_npz(*write_zip({{"a.npy", junk}}), kNpzLimit, "f"),
              FailsWith(Error::kInvalid, "f, member 'a.npy'"));
  EXPECT_THAT(parse_npz(*write_zip({{"readme", junk}}), kNpzLimit, "f"),
              FailsWith(Error::kInvalid, "f, member 'readme'"));
}

}  // namespace
}  // namespace tessera

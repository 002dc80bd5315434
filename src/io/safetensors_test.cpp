#include "io/safetensors.hpp"

#include "io/testing.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::Succeeds;

Bytes file(std::string_view header, size_t data) {
  Bytes out;
  append_little_endian<uint64_t>(out, header.size());
  out.insert(out.end(), header.begin(), header.end());
  out.resize(out.size() + data, 0xAB);
  return out;
}

Result<SafeTensors> tensors_of(std::string_view header, size_t data = 0) {
  return parse_safetensors(file(header, data), "f");
}

TEST(Safetensors, ReadsWhatTheFormatDescribes) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("s":{"data_offsets":[24,26],"shape":[],"dtype":"BF16"},)"
      R"("e":{"dtype":"I64","shape":[0,7],"data_offsets":[24,24]}}   )";
  const auto parsed = tensors_of(header, 26);
  ASSERT_THAT(parsed, Succeeds());
  EXPECT_EQ(parsed->metadata.at("format"), "pt");
  ASSERT_EQ(parsed->entries.size(), 3u);
  const auto* w = parsed->find("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->dtype, DType::kF32);
  EXPECT_THAT(w->shape, ElementsAre(2, 3));
  EXPECT_EQ(w->begin, 8 + header.size());
  EXPECT_EQ(w->end, 8 + header.size() + 24);
  EXPECT_EQ(parsed->entries[1].name, "e");
  EXPECT_EQ(parsed->entries[2].name, "s");
  EXPECT_EQ(parsed->find("x"), nullptr);
  EXPECT_THAT(tensors_of("{}"), Succeeds());
}

TEST(Safetensors, WritesTheReferenceLayout) {
  const Bytes small{1, 2, 3}, large(16, 9), half{7, 8};
  const auto bytes = write_safetensors(
      {{"b", DType::kU8, {3}, small}, {"z", DType::kF64, {2}, large}, {"a", DType::kF16, {}, half}},
      {{"k", "v"}});
  ASSERT_THAT(bytes, Succeeds());
  std::string header =
      R"({"__metadata__":{"k":"v"},"z":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},)"
      R"("a":{"dtype":"F16","shape":[],"data_offsets":[16,18]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[18,21]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(little_endian<uint64_t>(*bytes), header.size());
  EXPECT_EQ(text_of(ByteSpan(*bytes).subspan(8, header.size())), header);
  EXPECT_EQ((8 + header.size()) % 8, 0u);
  EXPECT_EQ(bytes->at(8 + header.size() + 16), 7);
  EXPECT_EQ(bytes->back(), 3);
}

TEST(Safetensors, OrderOfInputDoesNotMatterAndEverythingComesBack) {
  const Bytes a{1, 0, 0, 0}, b{2, 0, 0, 0}, none;
  const TensorToWrite x{"x\"\n", DType::kI32, {1}, a}, y{"ü", DType::kF32, {1, 1}, b},
      z{"z", DType::kBool, {0}, none};
  const auto one = write_safetensors({x, y, z}), two = write_safetensors({z, y, x});
  ASSERT_THAT(one, Succeeds());
  EXPECT_EQ(*one, *two);
  const auto parsed = parse_safetensors(*one, "f");
  ASSERT_THAT(parsed, Succeeds());
  ASSERT_EQ(parsed->entries.size(), 3u);
  for (const auto& tensor : {x, y, z}) {
    const auto* entry = parsed->find(tensor.name);
    ASSERT_NE(entry, nullptr) << tensor.name;
    EXPECT_EQ(entry->dtype, tensor.dtype);
    EXPECT_EQ(entry->shape, tensor.shape);
    EXPECT_TRUE(std::equal(tensor.data.begin(), tensor.data.end(),
                           one->begin() + static_cast<ptrdiff_t>(entry->begin),
                           one->begin() + static_cast<ptrdiff_t>(entry->end)));
  }
}

TEST(Safetensors, WriterRefusesWhatNoReaderCouldRead) {
  const Bytes four(4);
  EXPECT_THAT(write_safetensors({{"a", DType::kF32, {2}, four}}),
              FailsWith(Error::kInvalid, "'a' has 4 bytes"));
  EXPECT_THAT(write_safetensors({{"a", DType::kF32, {-1}, four}}),
              FailsWith(Error::kInvalid, "'a'"));
  EXPECT_THAT(write_safetensors({{"a", DType::kF32, {1}, four}, {"a", DType::kU8, {4}, four}}),
              FailsWith(Error::kInvalid, "taken"));
  EXPECT_THAT(write_safetensors({{"__metadata__", DType::kF32, {1}, four}}),
              FailsWith(Error::kInvalid, "taken"));
  EXPECT_THAT(write_safetensors({{"\xFF", DType::kF32, {1}, four}}),
              FailsWith(Error::kInvalid, "UTF-8"));
  EXPECT_THAT(write_safetensors({}, {{"k", "\xC3"}}), FailsWith(Error::kInvalid, "UTF-8"));
}

TEST(Safetensors, EveryTruncationAndAnyAdditionIsAnError) {
  const Bytes a(12), b(3);
  Bytes bytes = *write_safetensors({{"a", DType::kF32, {3}, a}, {"b", DType::kU8, {3}, b}});
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_THAT(parse_safetensors(ByteSpan(bytes).first(n), "name"),
                FailsWith(Error::kInvalid, "name"))
        << n;
  bytes.push_back(0);
  EXPECT_THAT(parse_safetensors(bytes, "f"), FailsWith(Error::kInvalid, "1 bytes at the end"));
}

TEST(Safetensors, RefusesHeadersThatAreNotHeaders) {
  EXPECT_THAT(parse_safetensors(Bytes(8, 0xFF), "f"),
              FailsWith(Error::kInvalid, "header would be"));
  Bytes long_header;
  append_little_endian<uint64_t>(long_header, 100'000'001);
  EXPECT_THAT(parse_safetensors(long_header, "f"), FailsWith(Error::kInvalid, "header would be"));
  EXPECT_THAT(tensors_of(""), FailsWith(Error::kInvalid, "not JSON"));
  EXPECT_THAT(tensors_of("[]"), FailsWith(Error::kInvalid, "not JSON"));
  EXPECT_THAT(tensors_of(" {}"), FailsWith(Error::kInvalid, "not JSON"));
  EXPECT_THAT(tensors_of("{"), FailsWith(Error::kInvalid, "not JSON"));
  EXPECT_THAT(tensors_of("{}{}"), FailsWith(Error::kInvalid, "not JSON"));
  EXPECT_THAT(tensors_of(std::string_view("{}\0x", 4)), FailsWith(Error::kInvalid, "not JSON"));
  EXPECT_THAT(tensors_of("{\"\xFF\":1}"), FailsWith(Error::kInvalid, "not JSON"));
  EXPECT_THAT(tensors_of("{\"a\":" + std::string(100000, '[')),
              FailsWith(Error::kInvalid, "a list"));
  EXPECT_THAT(tensors_of("{\"a\":" + std::string(100000, '{')),
              FailsWith(Error::kInvalid, "not JSON"));
}

TEST(Safetensors, RefusesWrongEntries) {
  const auto entry = [](std::string_view fields) {
    return fmt::format("{{\"a\":{{{}}}}}", fields);
  };
  const auto tensor = [&](std::string_view dtype, std::string_view shape,
                          std::string_view offsets) {
    return entry(fmt::format(R"("dtype":{},"shape":{},"data_offsets":{})", dtype, shape, offsets));
  };
  struct Case {
    std::string header;
    const char* text;
  };
  const Case cases[] = {
      {tensor("\"F31\"", "[1]", "[0,4]"), "unknown dtype 'F31'"},
      {tensor("3", "[1]", "[0,4]"), "a number where"},
      {tensor("[\"F32\"]", "[1]", "[0,4]"), "a list where"},
      {tensor("\"F32\"", "1", "[0,4]"), "a number where"},
      {tensor("\"F32\"", "[\"1\"]", "[0,4]"), "a text where"},
      {tensor("\"F32\"", "[[1]]", "[0,4]"), "a list where"},
      {tensor("\"F32\"", "[-1]", "[0,4]"), "negative number -1"},
      {tensor("\"F32\"", "[1.0]", "[0,4]"), "a fraction"},
      {tensor("\"F32\"", "[null]", "[0,4]"), "null"},
      {tensor("\"F32\"", "[true]", "[0,4]"), "a truth value"},
      {tensor("\"F32\"", "[9223372036854775808]", "[0,4]"), "dimension of"},
      {tensor("\"F32\"", "[4611686018427387904,4]", "[0,4]"), "4 bytes, not what"},
      {tensor("\"F32\"", "[4294967296,4294967296,0]", "[0,0]"), "not what"},
      {tensor("\"F32\"", "[2]", "[0,4]"), "4 bytes, not what"},
      {tensor("\"F32\"", "[1]", "[0]"), "1 data_offsets"},
      {tensor("\"F32\"", "[1]", "[0,4,4]"), "more than 2 data_offsets"},
      {tensor("\"F32\"", "[1]", "[4,0]"), "lies at bytes 4 … 0"},
      {tensor("\"F32\"", "[1]", "[1,5]"), "lies at bytes 1 … 5"},
      {tensor("\"F32\"", "[2]", "[0,8]"), "lies at bytes 0 … 8"},
      {tensor("\"U8\"", "[3]", "[0,3]"), "1 bytes at the end"},
      {entry(R"("dtype":"F32","shape":[1])"), "lacks one of"},
      {entry(R"("dtype":"F32","dtype":"F32")"), "'dtype' is there twice"},
      {entry(R"("kind":"F32")"), "unknown field 'kind'"},
      {R"({"a":1})", "a number where"},
      {R"({"a":"x"})", "a text where"},
      {R"({"__metadata__":{"a":1}})", "a number where"},
      {R"({"__metadata__":{"a":{}}})", "an object where"},
      {R"({"__metadata__":{"a":"1","a":"1"}})", "'a' is there twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "'__metadata__' is there twice"}};
  for (const auto& [header, text] : cases)
    EXPECT_THAT(tensors_of(header, 4), FailsWith(Error::kInvalid, text)) << header;
}

TEST(Safetensors, TensorsMustNotOverlapNorLeaveGaps) {
  const char* pattern = R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}},)"
                        R"("b":{{"dtype":"U8","shape":[4],"data_offsets":[{},{}]}}}})";
  EXPECT_THAT(tensors_of(fmt::format(fmt::runtime(pattern), 4, 8), 8), Succeeds());
  EXPECT_THAT(tensors_of(fmt::format(fmt::runtime(pattern), 3, 7), 8),
              FailsWith(Error::kInvalid, "'b'"));
  EXPECT_THAT(tensors_of(fmt::format(fmt::runtime(pattern), 5, 9), 9),
              FailsWith(Error::kInvalid, "'b'"));
  EXPECT_THAT(tensors_of(fmt::format(fmt::runtime(pattern), 0, 4), 4),
              FailsWith(Error::kInvalid, "'b'"));
  EXPECT_THAT(tensors_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                         R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                         2),
              FailsWith(Error::kInvalid, "'a' is there twice"));
}

TEST(Safetensors, LimitsAreThoseOfTheCaller) {
  const auto header =
      R"({"__metadata__":{"ab":"123","c":""},"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
      R"("xyz":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  const auto under = [&](const SafeTensorsLimits& limits) {
    return parse_safetensors(file(header, 0), "f", limits).status();
  };
  EXPECT_THAT(under({.tensors = 2, .name_bytes = 12, .texts = 2, .text_bytes = 3}), Succeeds());
  EXPECT_THAT(under({.tensors = 1}), FailsWith(Error::kInvalid, "more than 1 tensors"));
  EXPECT_THAT(under({.name_bytes = 11}), FailsWith(Error::kInvalid, "a name has 12 bytes"));
  EXPECT_THAT(under({.texts = 1}), FailsWith(Error::kInvalid, "more than 1 texts"));
  EXPECT_THAT(under({.text_bytes = 2}), FailsWith(Error::kInvalid, "'ab' has 3 bytes; at most 2"));
}

TEST(Safetensors, AShapeHasAtMost64Axes) {
  const auto of_axes = [](size_t axes) {
    std::string shape = "0";
    for (size_t i = 1; i < axes; ++i) shape += ",1";
    return tensors_of("{\"a\":{\"dtype\":\"U8\",\"shape\":[" + shape +
                      "],\"data_offsets\":[0,0]}}");
  };
  EXPECT_THAT(of_axes(64), Succeeds());
  EXPECT_THAT(of_axes(65), FailsWith(Error::kInvalid, "'a' has more than 64 axes"));
}

TEST(DType, NamesAndSizesAgreeBothWays) {
  size_t sum = 0;
  for (const char* name : {"BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "BF16", "F32", "F64"}) {
    const auto dtype = dtype_by_name(name);
    ASSERT_TRUE(dtype) << name;
    EXPECT_EQ(dtype_name(*dtype), name);
    sum += item_size(*dtype);
  }
  EXPECT_EQ(sum, 1u + 1 + 1 + 2 + 4 + 8 + 2 + 2 + 4 + 8);
  EXPECT_FALSE(dtype_by_name("f32"));
  EXPECT_EQ(tensor_bytes(DType::kF32, {}), 4u);
}

}  // namespace
}  // namespace tessera

#include "io/tensor/tensor_codec.hpp"

#include <ATen/ATen.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;
using testing::TempDir;

TensorDict every_kind() {
  TensorDict out;
  for (const auto type : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong,
                          at::kHalf, at::kBFloat16, at::kFloat, at::kDouble})
    out.emplace(c10::toString(type), at::arange(-3, 3).to(type).view({2, 3}));
  out.emplace("scalar", at::scalar_tensor(1.25, at::kDouble));
  out.emplace("flag", at::scalar_tensor(true, at::kBool));
  out.emplace("empty", at::empty({0}, at::kFloat));
  out.emplace("flat", at::empty({3, 0, 2}, at::kLong));
  out.emplace("special", at::tensor({NAN, INFINITY, -INFINITY, -0.0F, 1e-42F}));
  return out;
}

Bytes raw(const Tensor& tensor) {
  const auto dense = tensor.contiguous();
  const auto* data = static_cast<const uint8_t*>(dense.data_ptr());
  return {data, data + dense.nbytes()};
}

void expect_same(const TensorDict& got, const TensorDict& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_EQ(got.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(got.at(name).sizes(), tensor.sizes()) << name;
    EXPECT_EQ(raw(got.at(name)), raw(tensor)) << name;
  }
}

Result<Decoded> decoded(Bytes bytes) {
  return decode(std::make_shared<const Bytes>(std::move(bytes)), "test");
}

TEST(TensorCodec, EveryKindSurvives) {
  const auto all = every_kind();
  const auto back = decoded(encode(all, {{"note", "größer \"than\""}}));
  ASSERT_THAT(back, Succeeds());
  expect_same(back->tensors, all);
  EXPECT_EQ(back->metadata, (Metadata{{"note", "größer \"than\""}}));
  EXPECT_THAT(decoded(encode({})), Succeeds());
}

TEST(TensorCodec, ViewsAreWrittenAsTheyLook) {
  const auto base = at::arange(24, at::kFloat).view({4, 6});
  const TensorDict views{{"turned", base.t()},
                         {"strided", base.slice(1, 0, 6, 2)},
                         {"spread", base[0].unsqueeze(0).expand({3, 6})},
                         {"graph", base.clone().requires_grad_(true) * 2}};
  const auto back = decoded(encode(views));
  ASSERT_THAT(back, Succeeds());
  EXPECT_EQ(back->tensors.at("turned")[5][3].item<float>(), 23);
  for (const auto& [name, tensor] : views)
    EXPECT_TRUE(back->tensors.at(name).equal(tensor)) << name;
}

TEST(TensorCodec, TensorsKeepTheBytesAliveAndCopyNothing) {
  auto bytes = std::make_shared<const Bytes>(encode({{"x", at::arange(1000, at::kFloat)}}));
  const std::weak_ptr<const Bytes> watch = bytes;
  const auto* begin = bytes->data();
  const auto* end = begin + bytes->size();
  auto back = decode(std::move(bytes), "test");
  ASSERT_THAT(back, Succeeds());
  auto x = back->tensors.at("x");
  back = fail(Error::kInternal, "gone");
  const auto* data = static_cast<const uint8_t*>(x.data_ptr());
  EXPECT_TRUE(data > begin && data < end);
  EXPECT_EQ(x.sum().item<double>(), 499500);
  EXPECT_FALSE(watch.expired());
  x = Tensor();
  EXPECT_TRUE(watch.expired());
}

TEST(TensorCodec, EqualTensorsGiveEqualBytes) {
  EXPECT_EQ(encode(every_kind()), encode(every_kind()));
  const auto base = at::arange(6, at::kFloat).view({2, 3});
  EXPECT_EQ(encode({{"a", base.t()}}), encode({{"a", base.t().contiguous()}}));
  EXPECT_EQ(encoded_size(every_kind()), static_cast<int64_t>(encode(every_kind()).size()));
}

TEST(TensorCodec, WhatHasNoPlaceInTheFormatThrows) {
  EXPECT_THROW(encode({{"x", at::zeros({2}, at::kComplexFloat)}}), std::invalid_argument);
  EXPECT_THROW(encode({{"__metadata__", at::zeros({2})}}), std::invalid_argument);
}

// A second reader, by the format's description alone.
TensorDict read_independently(const Bytes& file) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | file.at(static_cast<size_t>(i));
  const auto header =
      nlohmann::json::parse(file.begin() + 8, file.begin() + 8 + static_cast<long>(length));
  const std::map<std::string, at::ScalarType> types{
      {"BOOL", at::kBool}, {"U8", at::kByte},   {"I8", at::kChar},  {"I16", at::kShort},
      {"I32", at::kInt},   {"I64", at::kLong},  {"F16", at::kHalf}, {"BF16", at::kBFloat16},
      {"F32", at::kFloat}, {"F64", at::kDouble}};
  TensorDict out;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto shape = entry.at("shape").get<std::vector<int64_t>>();
    auto tensor = at::empty(shape, at::TensorOptions(types.at(entry.at("dtype"))));
    const auto offsets = entry.at("data_offsets").get<std::vector<size_t>>();
    EXPECT_EQ(offsets.at(1) - offsets.at(0), tensor.nbytes()) << name;
    EXPECT_EQ((8 + length + offsets[0]) % tensor.itemsize(), 0U) << name << " is not aligned";
    if (tensor.nbytes() > 0)
      std::memcpy(tensor.data_ptr(), file.data() + 8 + length + offsets[0], tensor.nbytes());
    out.emplace(name, tensor);
  }
  return out;
}

TEST(TensorCodec, AnotherReaderReadsOurFiles) {
  expect_same(read_independently(encode(every_kind(), {{"a", "b"}})), every_kind());
}

TEST(TensorCodec, UnalignedForeignFilesLoadAligned) {
  // One bool first, so that the floats behind it start at an odd byte.
  std::string header = R"({"flag":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]},)"
                       R"("x":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})";
  while (header.size() % 8 != 0) header += ' ';
  Bytes file;
  append_little_endian<uint64_t>(file, header.size());
  file.insert(file.end(), header.begin(), header.end());
  file.push_back(1);
  const auto values = raw(at::tensor({1.5F, -2.5F}));
  file.insert(file.end(), values.begin(), values.end());
  const auto back = decoded(file);
  ASSERT_THAT(back, Succeeds());
  const auto& x = back->tensors.at("x");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data_ptr()) % 4, 0U);
  EXPECT_TRUE(x.equal(at::tensor({1.5F, -2.5F})));
  EXPECT_TRUE(back->tensors.at("flag").item<bool>());
}

TEST(TensorCodec, FilesComeBackVerifiedAndForeignOnesDoNot) {
  const TempDir dir;
  const auto path = dir.path() + "/x.safetensors";
  ASSERT_THAT(save_tensors(path, every_kind(), {{"round", "3"}}), Succeeds());
  const auto back = load_tensors(path);
  ASSERT_THAT(back, Succeeds());
  EXPECT_TRUE(back->verified);
  EXPECT_EQ(back->metadata.at("round"), "3");
  expect_same(back->tensors, every_kind());
  testing::put(path, encode(every_kind(), {{"round", "3"}}));
  const auto foreign = load_tensors(path);
  ASSERT_THAT(foreign, Succeeds());
  EXPECT_FALSE(foreign->verified);
  EXPECT_THAT(load_tensors(dir.path() + "/none"), FailsWith(Error::kNotFound, "none"));
}

TEST(TensorCodec, NoFlippedBitGoesUnnoticed) {
  const TempDir dir;
  const auto path = dir.path() + "/x.safetensors";
  const TensorDict small{{"a", at::arange(6, at::kFloat).view({2, 3})},
                         {"b", at::arange(4, at::kByte)},
                         {"n", at::scalar_tensor(int64_t{7}, at::kLong)}};
  ASSERT_THAT(save_tensors(path, small, {{"round", "12"}}), Succeeds());
  const auto whole = testing::get(path);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {0, 1, 4}) {
      auto damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      testing::put(path, damaged);
      const auto loaded = load_tensors(path);
      EXPECT_TRUE(!loaded.ok() || !loaded->verified) << "byte " << at << ", bit " << bit;
      if (!loaded.ok()) {
        ASSERT_THAT(loaded, FailsWith(Error::kInvalid, path)) << at;
      }
    }
  }
}

TEST(TensorCodec, ChangedShapesTypesAndMetadataDoNotMatchTheDigest) {
  const TempDir dir;
  const auto path = dir.path() + "/x.safetensors";
  ASSERT_THAT(save_tensors(path, {{"a", at::zeros({2, 3})}}, {{"round", "12"}}), Succeeds());
  const auto whole = testing::get(path);
  for (const auto& [from, to] :
       {std::pair{"[2,3]", "[3,2]"}, {"F32", "I32"}, {"\"12\"", "\"13\""}}) {
    auto changed = whole;
    const auto at = changed.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    changed.replace(at, std::strlen(from), to);
    testing::put(path, changed);
    EXPECT_THAT(load_tensors(path), FailsWith(Error::kInvalid, "digest")) << from;
  }
}

}  // namespace
}  // namespace tessera

#include "guard/frame.hpp"

#include <ATen/ATen.h>

#include "io/tensor/tensor_codec.hpp"
#include "io/testing.hpp"
#include "io/zstd.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

TensorDict framed_bytes(const Bytes& bytes) {
  auto tensor = at::empty({std::ssize(bytes)}, at::kByte);
  std::copy(bytes.begin(), bytes.end(), tensor.data_ptr<uint8_t>());
  return {{"guard/zstd", tensor}};
}

const TensorDict& some_tensors() {
  static const TensorDict out{{"w", at::zeros({1000})}, {"n", at::scalar_tensor(3, at::kLong)}};
  return out;
}

TEST(Frame, WhatIsFramedComesBackBitForBit) {
  const auto framed = in_frame(some_tensors(), 3);
  ASSERT_THAT(framed, Succeeds());
  EXPECT_TRUE(is_frame(*framed));
  EXPECT_FALSE(is_frame(some_tensors()));
  EXPECT_LT(payload_bytes(*framed), 200) << "zeros are small";
  const auto back = from_frame(*framed, encoded_size(some_tensors()));
  ASSERT_THAT(back, Succeeds());
  EXPECT_EQ(encode(*back), encode(some_tensors()));
  EXPECT_THAT(from_frame(*in_frame({}, 3), 100), Succeeds()) << "nothing can be framed, too";
}

TEST(Frame, NothingLargerThanPermittedIsOpened) {
  const auto framed = *in_frame(some_tensors(), 3);
  EXPECT_THAT(from_frame(framed, encoded_size(some_tensors()) - 1),
              FailsWith(Error::kInvalid, "guard/zstd: the zstd frame announces"));
  // A terabyte in 16 bytes: magic, a descriptor (size in 8 bytes), the size, one empty block.
  const Bytes bomb{0x28, 0xB5, 0x2F, 0xFD, 0xE0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0};
  EXPECT_THAT(from_frame(framed_bytes(bomb), 1 << 20),
              FailsWith(Error::kInvalid, "announces 1.10 TB, at most 1.05 MB"));
}

TEST(Frame, WhereNothingIsKnownTheFramesOwnSizeBoundsIt) {
  EXPECT_EQ(most_content(0), 64 << 20);
  EXPECT_EQ(most_content(45'000), 64 << 20) << "64 times that would be less";
  EXPECT_EQ(most_content(2 << 20), 128 << 20);
  EXPECT_EQ(most_content(int64_t{1} << 40), int64_t{4} << 30);
  EXPECT_THAT(from_frame(*in_frame(some_tensors(), 3)), Succeeds());
  const auto bomb = in_frame({{"w", at::zeros({80 << 20}, at::kByte)}}, 3);  // a few kilobytes
  ASSERT_THAT(bomb, Succeeds());
  EXPECT_THAT(from_frame(*bomb), FailsWith(Error::kInvalid, "at most 67.1 MB are expected"));
}

TEST(Frame, NamesInItAreThoseOfAMessage) {
  const auto framed = *in_frame({{std::string(1025, 'w'), at::zeros({1})}}, 3);
  EXPECT_THAT(from_frame(framed), FailsWith(Error::kInvalid, "a name has 1025 bytes"));
}

TEST(Frame, WhatIsNoFrameOfTensorsIsRefused) {
  EXPECT_THAT(from_frame({}, 100), FailsWith(Error::kInvalid, "not there"));
  EXPECT_THAT(from_frame(some_tensors(), 100), FailsWith(Error::kInvalid, "not there"));
  auto more = *in_frame(some_tensors(), 3);
  more.emplace("w", at::zeros({1}));
  EXPECT_THAT(from_frame(more, 1 << 20), FailsWith(Error::kInvalid, "not alone"));
  EXPECT_THAT(from_frame({{"guard/zstd", at::zeros({9})}}, 100),
              FailsWith(Error::kInvalid, "not a row of bytes"));
  EXPECT_THAT(from_frame(framed_bytes({1, 2, 3, 4, 5}), 100),
              FailsWith(Error::kInvalid, "not a zstd frame"));
  EXPECT_THAT(from_frame(framed_bytes(*zstd_compress(Bytes(50), 3)), 100),
              FailsWith(Error::kInvalid, "guard/zstd"));
  EXPECT_THAT(from_frame(framed_bytes(*zstd_compress(encode({}, {{"a", "b"}}), 3)), 100),
              FailsWith(Error::kInvalid, "metadata"));
}

TEST(Frame, ADownloadForManyIsFramedOnce) {
  DownloadFrames frames(3);
  const auto one = frames.make(some_tensors()), two = frames.make(some_tensors());
  EXPECT_TRUE(one.at("guard/zstd").is_same(two.at("guard/zstd")));
  auto other = some_tensors();
  other["w"] = other["w"].clone();
  EXPECT_FALSE(frames.make(other).at("guard/zstd").is_same(one.at("guard/zstd")));
  EXPECT_EQ(encode(*from_frame(frames.make({}), 100)), encode({}));
  EXPECT_EQ(encode(DownloadFrames(0).make(some_tensors())), encode(some_tensors()));
}

}  // namespace
}  // namespace tessera

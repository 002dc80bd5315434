#include "io/cifar.hpp"
#include "io/file.hpp"
#include "io/idx.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::Succeeds;

Bytes idx_images(uint32_t count, uint32_t rows, uint32_t columns, size_t body) {
  Bytes out;
  for (const uint32_t number : {0x803u, count, rows, columns})
    for (int shift = 24; shift >= 0; shift -= 8)
      out.push_back(static_cast<uint8_t>(number >> shift));
  for (size_t i = 0; i < body; ++i) out.push_back(static_cast<uint8_t>(i));
  return out;
}

const Bytes kLabels{0, 0, 8, 1, 0, 0, 0, 3, 2, 0, 9};

TEST(Idx, ReadsImagesAndLabels) {
  const Bytes file = idx_images(2, 3, 4, 24);
  const auto images = parse_idx_images(file, "x");
  ASSERT_THAT(images, Succeeds());
  EXPECT_EQ(images->count, 2);
  EXPECT_EQ(images->rows, 3);
  EXPECT_EQ(images->columns, 4);
  EXPECT_EQ(images->pixels.size(), 24u);
  EXPECT_EQ(images->pixels[23], 23);
  const auto labels = parse_idx_labels(kLabels, 10, "x");
  ASSERT_THAT(labels, Succeeds());
  EXPECT_THAT(*labels, ElementsAre(2, 0, 9));
}

TEST(Idx, EveryOtherLengthIsAnError) {
  Bytes images = idx_images(2, 3, 4, 24), labels = kLabels;
  for (size_t n = 0; n < images.size(); ++n)
    EXPECT_THAT(parse_idx_images(ByteSpan(images).first(n), "name"),
                FailsWith(Error::kInvalid, "name"));
  for (size_t n = 0; n < labels.size(); ++n)
    EXPECT_THAT(parse_idx_labels(ByteSpan(labels).first(n), 10, "name"),
                FailsWith(Error::kInvalid, "name"));
  images.push_back(0), labels.push_back(0);
  EXPECT_THAT(parse_idx_images(images, "x"), FailsWith(Error::kInvalid, "added at the end"));
  EXPECT_THAT(parse_idx_labels(labels, 10, "x"), FailsWith(Error::kInvalid, "added at the end"));
}

TEST(Idx, RefusesOtherMagicHugeSizesAndLabelsOutOfRange) {
  EXPECT_THAT(parse_idx_images(idx_images(0xFFFFFFFF, 4096, 4096, 9), "x"),
              FailsWith(Error::kInvalid, "72057594021150720"));  // (2³² − 1) · 2²⁴
  EXPECT_THAT(parse_idx_images(idx_images(1, 0, 5, 0), "x"), FailsWith(Error::kInvalid, "0×5"));
  EXPECT_THAT(parse_idx_images(idx_images(1, 5000, 1, 5000), "x"),
              FailsWith(Error::kInvalid, "5000×1"));
  EXPECT_THAT(parse_idx_images(kLabels, "x"), FailsWith(Error::kInvalid, "too few"));
  EXPECT_THAT(parse_idx_labels(idx_images(1, 1, 1, 1), 10, "x"),
              FailsWith(Error::kInvalid, "00000803"));
  EXPECT_THAT(parse_idx_labels(kLabels, 9, "x"), FailsWith(Error::kInvalid, "label 9 at byte 10"));
}

TEST(Idx, RealLabelsHaveTheirKnownCounts) {
  const auto path = testing::data_file("mnist/t10k-labels-idx1-ubyte.gz");
  if (!path) GTEST_SKIP() << "no MNIST; set TESSERA_DATA to run this";
  const auto file = read_unpacked(*path, 1 << 20);
  ASSERT_THAT(file, Succeeds());
  const auto labels = parse_idx_labels(*file, 10, *path);
  ASSERT_THAT(labels, Succeeds());
  std::vector<int> counts(10);
  for (const uint8_t label : *labels) ++counts[label];
  EXPECT_THAT(counts, ElementsAre(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009));
}

Bytes cifar(std::vector<Bytes> labels) {
  Bytes out;
  uint8_t shade = 0;
  for (const auto& label : labels) {
    out.insert(out.end(), label.begin(), label.end());
    out.insert(out.end(), kCifarPixels, ++shade);
  }
  return out;
}

TEST(Cifar, ReadsBothLayouts) {
  const Bytes ten = cifar({{3}, {9}}), hundred = cifar({{19, 99}, {255, 0}});
  const auto a = parse_cifar(ten, CifarLabels::kOne, 10, "x");
  ASSERT_THAT(a, Succeeds());
  EXPECT_THAT(a->labels, ElementsAre(3, 9));
  EXPECT_EQ(a->pixels[1].size(), 3072u);
  EXPECT_EQ(a->pixels[0][3071], 1);
  EXPECT_EQ(a->pixels[1][0], 2);
  const auto b = parse_cifar(hundred, CifarLabels::kCoarseAndFine, 100, "x");
  ASSERT_THAT(b, Succeeds());
  EXPECT_THAT(b->labels, ElementsAre(99, 0));
  EXPECT_EQ(b->pixels[1][0], 2);
}

TEST(Cifar, RefusesPartsOfRecordsAndLabelsOutOfRange) {
  const Bytes file = cifar({{3}, {9}});
  for (const size_t n : {0, 1, 3072, 3074, 6145})
    EXPECT_THAT(parse_cifar(ByteSpan(file).first(n), CifarLabels::kOne, 10, "x"),
                FailsWith(Error::kInvalid, "whole number of records"));
  EXPECT_THAT(parse_cifar(file, CifarLabels::kOne, 9, "x"),
              FailsWith(Error::kInvalid, "label 9 at byte 3073 (record 1)"));
  EXPECT_THAT(parse_cifar(cifar({{0, 100}}), CifarLabels::kCoarseAndFine, 100, "x"),
              FailsWith(Error::kInvalid, "label 100 at byte 1 (record 0)"));
}

TEST(Cifar, RealRecordsHaveTheirKnownCounts) {
  const auto path = testing::data_file("mnist-m/mnist_m_test.bin.xz");
  if (!path) GTEST_SKIP() << "no MNIST-M; set TESSERA_DATA to run this";
  const auto file = read_unpacked(*path, 20'000'000);
  ASSERT_THAT(file, Succeeds());
  const auto records = parse_cifar(*file, CifarLabels::kOne, 10, *path);
  ASSERT_THAT(records, Succeeds());
  std::vector<int> counts(10);
  for (const uint8_t label : records->labels) ++counts[label];
  EXPECT_THAT(counts, ElementsAre(404, 532, 457, 461, 434, 418, 443, 461, 415, 476));
}

}  // namespace
}  // namespace tessera

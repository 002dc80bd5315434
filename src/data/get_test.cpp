#include "data/get.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "data/images.hpp"
#include "data/testing.hpp"
#include "io/file.hpp"
#include "io/zip.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

const OfficialSet& official(const std::string& set) {
  const auto& all = official_sets();
  return *std::find_if(all.begin(), all.end(), [&](auto& entry) { return entry.set == set; });
}

// A CIFAR-100 file: records of superclass, class and 3072 pixels.
Bytes cifar100(int records) {
  Bytes out(static_cast<size_t>(records) * 3074, 1);
  for (size_t i = 0; i < static_cast<size_t>(records); ++i)
    out[i * 3074 + 1] = static_cast<uint8_t>(7 * i);
  return out;
}

TEST(Get, TakesASetFromANestedZipAndTheLoaderFindsIt) {
  const auto dir = fresh_dir("get-zip"), target = dir + "/data";
  const auto train = cifar100(4), test = cifar100(2);
  const auto inner = write_zip({{"x/train.bin", train}, {"../../test.bin", test}});
  const auto outer = write_zip({{"readme.txt", bytes_of("hello")}, {"inner.zip", *inner}});
  ASSERT_TRUE(write_file_atomic(dir + "/a.zip", *outer).ok());
  const auto got = get_dataset("cifar100", target, dir + "/a.zip", {});
  ASSERT_TRUE(got.ok()) << got;
  const auto images = load_images("cifar100", target);
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_EQ(images->labels.train, (std::vector<int64_t>{0, 7, 14, 21}));
  EXPECT_EQ(images->labels.test.size(), 2u);
  EXPECT_FALSE(fs::exists(target + "/cifar-100.getting"));
  EXPECT_FALSE(fs::exists(dir + "/test.bin"));  // a member's path is never followed
}

// A ustar archive: a header block and padded data for each file, then two empty blocks.
Bytes tar_of(const std::vector<std::pair<std::string, Bytes>>& files) {
  Bytes out;
  for (const auto& [name, data] : files) {
    std::array<char, 512> header{};
    const auto put = [&](size_t at, const std::string& text) {
      std::copy(text.begin(), text.end(), header.begin() + static_cast<std::ptrdiff_t>(at));
    };
    put(0, name), put(100, "0000644"), put(124, fmt::format("{:011o}", data.size()));
    put(148, "        0"), put(257, "ustar"), put(263, "00");
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    put(148, fmt::format("{:06o}", sum)), header[154] = '\0';
    out.insert(out.end(), header.begin(), header.end());
    out.insert(out.end(), data.begin(), data.end());
    out.resize((out.size() + 511) / 512 * 512);
  }
  out.resize(out.size() + 1024);
  return out;
}

TEST(Get, TakesASetFromATarArchive) {
  const auto dir = fresh_dir("get-tar");
  const auto archive = tar_of(
      {{"cifar-100-binary/train.bin", cifar100(3)}, {"cifar-100-binary/test.bin", cifar100(2)}});
  ASSERT_TRUE(write_file_atomic(dir + "/cifar-100-binary.tar", archive).ok());
  const auto got = get_dataset("cifar100", dir, dir + "/cifar-100-binary.tar", {});
  ASSERT_TRUE(got.ok()) << got;
  EXPECT_EQ(*read_file(dir + "/cifar-100/train.bin"), cifar100(3));
}

TEST(Get, FetchesAUrlWithProgress) {
  const auto dir = fresh_dir("get-url"), target = dir + "/data";
  const auto archive = write_zip({{"train.bin", cifar100(1)}, {"test.bin", cifar100(1)}});
  ASSERT_TRUE(write_file_atomic(dir + "/set.zip", *archive).ok());
  std::string seen;
  const auto got = get_dataset("cifar100", target, "file://" + dir + "/set.zip",
                               [&](const std::string& what, uint64_t, uint64_t) {
                                 seen = what;
                                 return true;
                               });
  ASSERT_TRUE(got.ok()) << got;
  EXPECT_EQ(seen, "set.zip");
  EXPECT_TRUE(fs::exists(target + "/cifar-100/train.bin"));
}

TEST(Get, WrongOrIncompleteSourcesLeaveNothingBehind) {
  const auto dir = fresh_dir("get-bad"), target = dir + "/data";
  const auto fails = [&](const std::string& set, const std::string& from) {
    const auto status = get_dataset(set, target, from, {});
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(fs::exists(target));
    return message(status);
  };
  ASSERT_TRUE(write_file_atomic(dir + "/train.bin", cifar100(1)).ok());
  EXPECT_THAT(fails("cifar100", dir + "/train.bin"), HasSubstr("lacks test.bin"));
  ASSERT_TRUE(write_file_atomic(dir + "/test.bin", bytes_of("not an image")).ok());
  EXPECT_THAT(fails("cifar100", dir), HasSubstr("test.bin"));
  EXPECT_THAT(fails("cifar100", dir + "/nowhere"), HasSubstr("nowhere"));
  for (const auto& file : official("mnist").files)
    ASSERT_TRUE(write_file_atomic(dir + "/" + file.name, bytes_of("forged")).ok());
  EXPECT_THAT(fails("mnist", dir), HasSubstr("not the official file"));
  EXPECT_THAT(fails("mnist", "file://" + dir + "/nothing.gz"), HasSubstr("nothing.gz"));
  EXPECT_THAT(fails("minst", dir), HasSubstr("'mnist'"));
}

TEST(Get, AFailedCallKeepsWhatWasThere) {
  const auto dir = fresh_dir("get-keep");
  fs::create_directories(dir + "/cifar-100");
  ASSERT_TRUE(write_file_atomic(dir + "/cifar-100/train.bin", bytes_of("mine")).ok());
  EXPECT_FALSE(get_dataset("cifar100", dir, dir + "/nowhere", {}).ok());
  EXPECT_EQ(text_of(*read_file(dir + "/cifar-100/train.bin")), "mine");
}

TEST(Get, SetsWithoutADownloadSayWhatToDo) {
  const auto dir = fresh_dir("get-none");
  EXPECT_THAT(message(get_dataset("air-5c", dir, {}, {})), HasSubstr("RAR"));
  EXPECT_THAT(message(get_dataset("mnistm", dir, {}, {})), HasSubstr("built"));
}

TEST(Get, UnpacksRealMnistFromADirectory) {
  TESSERA_NEED_SET("mnist");
  const auto target = fresh_dir("get-mnist");
  const auto got = get_dataset("mnist", target, find_set("mnist", test_data_dir()).value(), {});
  ASSERT_TRUE(got.ok()) << got;
  EXPECT_EQ(fs::file_size(target + "/mnist/train-images-idx3-ubyte"), 47040016u);
}

}  // namespace
}  // namespace tessera

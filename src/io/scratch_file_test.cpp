#include "io/scratch_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::TempDir;

TEST(ScratchFile, GivesBackWhatWasPutAndLeavesNoName) {
  TempDir dir;
  auto file = *ScratchFile::create(dir.path());
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  const auto a = *file.put(Bytes(1000, 7)), b = *file.put(Bytes{1, 2, 3}), c = *file.put(Bytes());
  EXPECT_EQ(*file.get(b), (Bytes{1, 2, 3}));
  EXPECT_EQ(*file.get(a), Bytes(1000, 7));
  EXPECT_TRUE(file.get(c)->empty());
  EXPECT_EQ(file.size(), 1003U);
}

TEST(ScratchFile, RoomIsUsedAgainForTheSameSize) {
  TempDir dir;
  auto file = *ScratchFile::create(dir.path());
  const auto a = *file.put(Bytes(100, 1)), b = *file.put(Bytes(100, 2));
  file.drop(a);
  const auto c = *file.put(Bytes(100, 3)), d = *file.put(Bytes(99, 4));
  EXPECT_EQ(c.at, a.at);
  EXPECT_EQ(*file.get(b), Bytes(100, 2));
  EXPECT_EQ(*file.get(c), Bytes(100, 3));
  EXPECT_EQ(*file.get(d), Bytes(99, 4));
  EXPECT_EQ(file.size(), 299U);
}

TEST(ScratchFile, NamesTheDirectoryThatIsNotThere) {
  EXPECT_THAT(ScratchFile::create("/nowhere/at/all"),
              FailsWith(Error::kNotFound, "/nowhere/at/all"));
}

}  // namespace
}  // namespace tessera

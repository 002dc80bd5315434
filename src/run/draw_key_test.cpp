#include "run/draw_key.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

TEST(DrawKey, IsTheSameAfterARestartAndNobodyElsesKey) {
  const testing::TempDir one, other;
  const auto key = draw_key(one.path());
  ASSERT_THAT(key.status(), Succeeds());
  EXPECT_EQ(*draw_key(one.path()), *key);
  EXPECT_NE(*draw_key(other.path()), *key);
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(one.file("draw.key")).permissions(),
            perms::owner_read | perms::owner_write);
}

TEST(DrawKey, ADamagedOneIsNotReplaced) {
  const testing::TempDir dir;
  ASSERT_THAT(draw_key(dir.path()).status(), Succeeds());
  for (const char* text :
       {"", "12\n", "0123456789abcdeg\n", "0123456789abcdef", "0123456789abcdef01\n"}) {
    std::ofstream(dir.file("draw.key"), std::ios::trunc) << text;
    EXPECT_THAT(draw_key(dir.path()).status(), FailsWith(Error::kInvalid, "draw.key: damaged"));
  }
  std::filesystem::permissions(dir.file("draw.key"), std::filesystem::perms::group_read,
                               std::filesystem::perm_options::add);
  EXPECT_FALSE(draw_key(dir.path()).ok());
}

}  // namespace
}  // namespace tessera

// Processes that share a directory for scratch make and remove its parent: each removes it when it
// finds it empty. One that came between the making of the parent and of what stands in it made the
// other fail with "No such file or directory" (a rank of `reproduce --spread cells`, once in CI).
#include <filesystem>
#include <thread>

#include "io/file.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::Succeeds;

TEST(VanishingParent, IsMadeAgain) {
  const testing::TempDir dir;
  const auto parent = dir.path() + "/cells";
  const auto make_and_remove = [&parent](const std::string& name) {
    std::error_code ignored;
    for (int i = 0; i < 2000; ++i) {
      ASSERT_THAT(make_dirs(parent + "/" + name), Succeeds()) << i;
      std::filesystem::remove(parent + "/" + name, ignored);
      std::filesystem::remove(parent, ignored);  // if it is empty
    }
  };
  std::thread other(make_and_remove, "a");
  make_and_remove("b");
  other.join();
}

}  // namespace
}  // namespace tessera

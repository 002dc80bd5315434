#include "run/state_watch.hpp"

#include <filesystem>

#include "io/file.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;
using testing::TempDir;

/// Whether the watch asks for a stop within ten seconds.
bool stops(const StateWatch& watch) {
  for (int i = 0; i < 1000 && !watch.stop()->load(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return watch.stop()->load();
}

struct Watched {
  Watched() {
    std::filesystem::create_directory(state);
    lock.emplace(*DirLock::take(state));
    watch = *StateWatch::begin(state, &outer);
  }
  TempDir dir;
  std::string state = dir.file("state");
  std::atomic<bool> outer = false;
  std::optional<DirLock> lock;
  std::unique_ptr<StateWatch> watch;
};

TEST(StateWatch, PassesOnAStopOfOthers) {
  Watched w;
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  EXPECT_FALSE(w.watch->stop()->load());
  w.outer = true;
  EXPECT_TRUE(stops(*w.watch));
  EXPECT_THAT(w.watch->trouble(), Succeeds());
}

TEST(StateWatch, FindsOutWhenTheDirectoryHasGone) {
  Watched w;
  std::filesystem::remove_all(w.state);
  EXPECT_TRUE(stops(*w.watch));
  EXPECT_THAT(w.watch->trouble(), FailsWith(Error::kIo, "state: the state was removed"));
}

TEST(StateWatch, FindsOutWhenAnotherHasItsName) {
  Watched w;
  std::filesystem::create_directory(w.dir.file("other"));
  testing::put(w.dir.file("other/.lock"), "");
  std::filesystem::rename(w.state, w.dir.file("moved"));
  std::filesystem::rename(w.dir.file("other"), w.state);
  EXPECT_TRUE(stops(*w.watch));
  EXPECT_THAT(w.watch->trouble(), FailsWith(Error::kIo, "removed or replaced"));
}

TEST(StateWatch, FindsOutWhenItWasEmptied) {
  Watched w;
  std::filesystem::remove(w.state + "/.lock");
  EXPECT_TRUE(stops(*w.watch));
  EXPECT_THAT(w.watch->trouble(), FailsWith(Error::kIo, "removed or replaced"));
}

}  // namespace
}  // namespace tessera

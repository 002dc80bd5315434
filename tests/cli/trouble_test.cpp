// What can go wrong around a run: each gets one sentence, a non-zero exit, and nothing is lost.
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "playground.hpp"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Trouble : public Playground {
 protected:
  void TearDown() override {
    if (!mounted_.empty()) umount(mounted_.c_str());
    Playground::TearDown();
  }
  /// A small file system of its own; false where the test may not mount.
  bool mount_small(const std::string& name, const char* size) {
    fs::create_directories(path(name));
    if (mount("tmpfs", path(name).c_str(), "tmpfs", 0, size) != 0) return false;
    mounted_ = path(name);
    return true;
  }
  /// Stops a long run after a few rounds, leaving it unfinished.
  void unfinished(const std::string& out) {
    auto process = long_run(out, 3);
    process->signal(SIGKILL);
    process->wait();
    ASSERT_FALSE(exists(out + "/summary.json"));
  }
  /// Interrupts a long run after a few rounds: its checkpoint is one file, without a journal that
  /// could mend it.
  void interrupted(const std::string& out) {
    auto process = long_run(out, 3);
    process->signal(SIGINT);
    process->signal(SIGCONT);
    process->wait();
    ASSERT_FALSE(exists(out + "/summary.json"));
  }
  void expect_failure(const Finished& done, int code, const std::string& text) {
    EXPECT_EQ(done.code, code) << done.err;
    EXPECT_EQ(done.out, "");
    EXPECT_EQ(error_lines(done), 1) << done.err;
    EXPECT_THAT(done.err, HasSubstr(text));
  }
  std::string mounted_;
};

TEST_F(Trouble, OutputDirectoryThatCannotBe) {
  write("file", "in the way");
  const auto blocked = run("file/run");
  EXPECT_NE(blocked.code, 0);
  EXPECT_EQ(error_lines(blocked), 1);
  EXPECT_THAT(blocked.err, HasSubstr("file"));
  const auto nowhere = tessera({"run", path("e.toml"), "--out", "/proc/tessera/run", "--quiet"});
  EXPECT_NE(nowhere.code, 0);
  EXPECT_EQ(error_lines(nowhere), 1);
  EXPECT_THAT(nowhere.err, HasSubstr("/proc/tessera"));
}

TEST_F(Trouble, ReadOnlyOutputDirectory) {
  if (geteuid() == 0) {
    if (!mount_small("ro", "size=1m")) GTEST_SKIP() << "may not mount a read-only file system";
    ASSERT_EQ(mount(nullptr, mounted_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  } else {
    fs::create_directory(path("ro"));
    ASSERT_EQ(chmod(path("ro").c_str(), 0555), 0);
  }
  expect_failure(run("ro/run"), 1, "ro/run");
  expect_failure(run("ro"), 1, "ro");
}

TEST_F(Trouble, TwoRunsInOneDirectory) {
  auto first = long_run("a", 1);
  expect_failure(run("a", {"--resume"}), 1, "another tessera run");
  expect_failure(run("a", {"--force"}), 1, "another tessera run");
  first->signal(SIGINT);
  EXPECT_EQ(first->wait().code, 130);
  const auto rest = run("a", {"--resume"});
  EXPECT_EQ(rest.code, 0) << rest.err;
}

TEST_F(Trouble, CheckpointOfAnotherConfiguration) {
  unfinished("a");
  const auto other = run("a", {"--resume", "--set", "train.lr=0.2"});
  expect_failure(other, 2, "another configuration");
  EXPECT_THAT(other.err, HasSubstr("lr = 0.2"));
}

TEST_F(Trouble, DamagedCheckpoint) {
  interrupted("a");
  const fs::path file = path("a/checkpoint/state.sqlite");
  ASSERT_FALSE(exists("a/checkpoint/state.sqlite-wal"));
  fs::resize_file(file, fs::file_size(file) / 2);
  expect_failure(run("a", {"--resume"}), 2, "checkpoint");
  std::ofstream(file) << "nonsense that is long enough to be read";
  expect_failure(run("a", {"--resume"}), 2, "checkpoint");
  EXPECT_EQ(run("a", {"--force", "--set", "rounds=3"}).code, 0);
}

TEST_F(Trouble, DamagedHistory) {
  unfinished("a");
  fs::remove(path("a/history.sqlite-wal"));
  write("a/history.sqlite", std::string(8192, 'x'));
  expect_failure(run("a", {"--resume"}), 2, "history.sqlite");
  expect_failure(tessera({"report", path("a")}), 2, "history.sqlite");
  fs::remove(path("a/history.sqlite"));
  const auto gone = run("a", {"--resume"});
  EXPECT_EQ(gone.code, 2) << gone.err;
  EXPECT_THAT(gone.err, HasSubstr("history.sqlite"));
}

TEST_F(Trouble, DamagedSummary) {
  ASSERT_EQ(run("a").code, 0);
  write("a/summary.json", "{");
  expect_failure(run("a", {"--resume"}), 2, "summary.json");
}

TEST_F(Trouble, FullDisk) {
  if (!mount_small("disk", "size=4m")) GTEST_SKIP() << "may not mount a small file system";
  experiment("fedavg", kLongRounds);
  write("disk/filler", std::string(3500000, 'f'));
  const auto full = run("disk/run");
  EXPECT_EQ(full.code, 1) << full.err;
  EXPECT_EQ(error_lines(full), 1) << full.err;
  EXPECT_THAT(full.err, HasSubstr("disk/run"));
  EXPECT_FALSE(exists("disk/run/summary.json"));
  EXPECT_TRUE(exists("disk/run/checkpoint"));
  // With room again it goes on from its last checkpoint as if nothing had happened.
  fs::remove(path("disk/filler"));
  ASSERT_EQ(mount(nullptr, mounted_.c_str(), nullptr, MS_REMOUNT, "size=64m"), 0);
  const auto resumed = run("disk/run", {"--resume"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  ASSERT_EQ(run("whole").code, 0);
  EXPECT_EQ(digest("disk/run"), digest("whole"));
}

}  // namespace
}  // namespace tessera::testing

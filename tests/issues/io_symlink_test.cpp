// A directory that somebody else has prepared may hold links to files of the user. `.lock` followed
// them and emptied what they point to; so did whatever else was opened to be written.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "io/download.hpp"
#include "io/file.hpp"
#include "io/sqlite.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::get;
using testing::put;
using testing::Succeeds;
using testing::TempDir;

constexpr const char* kPrecious = "precious, and of somebody who was not asked\n";

/// A directory with `name` as a link to a file that must stay as it is.
struct Prepared {
  explicit Prepared(const std::string& name, bool hard = false) : path(dir.file(name)) {
    put(victim, kPrecious);
    std::error_code error;
    if (hard)
      std::filesystem::create_hard_link(victim, path, error);
    else
      std::filesystem::create_symlink(victim, path, error);
    if (error) throw std::runtime_error(error.message());
  }
  ~Prepared() { EXPECT_EQ(get(victim), kPrecious) << path; }

  TempDir other, dir;
  std::string victim = other.file("victim"), path;
};

TEST(Links, OfALockAreNotFollowed) {
  const Prepared soft(".lock");
  EXPECT_THAT(DirLock::take(soft.dir.path()),
              FailsWith(Error::kInvalid, "a symbolic link is not followed here"));
  const Prepared hard(".lock", true);
  EXPECT_THAT(DirLock::take(hard.dir.path()), FailsWith(Error::kInvalid, "a hard link"));
}

TEST(Links, ThatPointNowhereMakeNothingThere) {
  const TempDir dir, other;
  std::filesystem::create_symlink(other.file("new"), dir.file(".lock"));
  EXPECT_THAT(DirLock::take(dir.path()), FailsWith(Error::kInvalid, "symbolic link"));
  EXPECT_TRUE(other.names().empty());
}

TEST(Links, NorIsAnythingElseThatIsNoLockOfOurs) {
  const TempDir dir;
  put(dir.file(".lock"), kPrecious);
  EXPECT_THAT(DirLock::take(dir.path()), FailsWith(Error::kInvalid, "is no lock of tessera's"));
  EXPECT_EQ(get(dir.file(".lock")), kPrecious);
  put(dir.file(".lock"), "4711\n");  // of a process that has ended
  EXPECT_THAT(DirLock::take(dir.path()), Succeeds());
  std::filesystem::remove(dir.file(".lock"));
  ASSERT_EQ(::mkfifo(dir.file(".lock").c_str(), 0600), 0);
  EXPECT_THAT(DirLock::take(dir.path()), FailsWith(Error::kInvalid, "no regular file"));
}

TEST(Links, OfAFileThatIsWrittenWholeAreReplaced) {
  const Prepared soft("config.toml"), hard("config.toml", true);
  for (const auto* each : {&soft, &hard}) {
    EXPECT_THAT(write_file_atomic(each->path, bytes_of("new")), Succeeds());
    EXPECT_EQ(get(each->path), "new");
    EXPECT_FALSE(std::filesystem::is_symlink(each->path));
  }
}

TEST(Links, OfATemporaryAreNotFollowed) {
  // The names of the next temporaries, as another could foresee them.
  const TempDir dir, other;
  put(other.file("victim"), kPrecious);
  for (int serial = 0; serial < 60; ++serial)
    std::filesystem::create_symlink(
        other.file("victim"),
        fmt::format("{}.tmp.{}.{}", dir.file("config.toml"), ::getpid(), serial));
  EXPECT_THAT(write_file_atomic(dir.file("config.toml"), bytes_of("new")), Succeeds());
  EXPECT_EQ(get(other.file("victim")), kPrecious);
}

TEST(Links, OfADatabaseAreNotFollowed) {
  for (const std::string ending : {"", "-wal", "-shm", "-journal"}) {
    const Prepared soft("history.sqlite" + ending);
    EXPECT_THAT(Database::open(soft.dir.file("history.sqlite"), Database::Mode::kReadWrite),
                FailsWith(Error::kInvalid, "symbolic link"))
        << ending;
  }
}

TEST(Links, OfADownloadAreNotFollowed) {
  for (const bool hard : {false, true}) {
    const Prepared prepared("set.npz.part", hard);
    // Nothing is fetched: the file is opened first.
    EXPECT_THAT(download("http://127.0.0.1:9/set.npz", prepared.dir.file("set.npz"), {}),
                FailsWith(Error::kInvalid, hard ? "hard link" : "symbolic link"));
  }
}

}  // namespace
}  // namespace tessera

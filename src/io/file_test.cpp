#include "io/file.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>

#include "io/testing.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::get;
using ::testing::HasSubstr;
using testing::put;
using testing::Succeeds;
using testing::TempDir;

// Writes beyond `bytes` fail with EFBIG, as on a full disk, while this lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

TEST(ReadFile, ReturnsEveryByteAndRefusesWhatIsNoFileOrTooLarge) {
  TempDir dir;
  const std::string contents("a\0b\xFF\n", 5);
  put(dir.file("x"), contents);
  put(dir.file("empty"), "");
  EXPECT_EQ(*read_file(dir.file("x")), testing::to_bytes(contents));
  EXPECT_EQ(read_file(dir.file("empty"))->size(), 0u);
  EXPECT_THAT(read_file(dir.file("x"), 5), Succeeds());
  EXPECT_THAT(read_file(dir.file("x"), 4), FailsWith(Error::kInvalid, dir.file("x")));
  EXPECT_THAT(read_file(dir.file("none")), FailsWith(Error::kNotFound, dir.file("none")));
  EXPECT_THAT(read_file(dir.path()), FailsWith(Error::kInvalid, "is a directory"));
  EXPECT_THAT(read_file("/dev/zero"), FailsWith(Error::kInvalid, "device"));
}

TEST(ReadFile, DoesNotWaitForTheWriterOfAPipe) {
  TempDir dir;
  ASSERT_EQ(::mkfifo(dir.file("pipe").c_str(), 0600), 0);
  EXPECT_THAT(read_file(dir.file("pipe")), FailsWith(Error::kInvalid, "pipe"));
}

TEST(FindUnpacked, PrefersThePlainFile) {
  TempDir dir;
  EXPECT_THAT(find_unpacked(dir.path(), "x"), FailsWith(Error::kNotFound, "x.gz"));
  put(dir.file("x.xz"), "");
  EXPECT_EQ(*find_unpacked(dir.path(), "x"), dir.file("x.xz"));
  put(dir.file("x.gz"), "");
  EXPECT_EQ(*find_unpacked(dir.path(), "x"), dir.file("x.gz"));
  put(dir.file("x"), "");
  EXPECT_EQ(*find_unpacked(dir.path(), "x"), dir.file("x"));
}

TEST(MakeDirs, MakesParentsAndNamesAFileInTheWay) {
  TempDir dir;
  EXPECT_THAT(make_dirs(dir.file("a/b/c")), Succeeds());
  EXPECT_TRUE(std::filesystem::is_directory(dir.file("a/b/c")));
  EXPECT_THAT(make_dirs(dir.file("a/b/c")), Succeeds());
  put(dir.file("f"), "");
  EXPECT_THAT(make_dirs(dir.file("f")), FailsWith(Error::kInvalid, "in the way"));
  EXPECT_THAT(make_dirs(dir.file("f/g")), FailsWith(Error::kInvalid, "in the way"));
  EXPECT_THAT(make_dirs(""), FailsWith(Error::kInvalid, "empty"));
}

TEST(AtomicFile, AppearsOnlyWhenCommitted) {
  TempDir dir;
  put(dir.file("x"), "old");
  {
    auto file = AtomicFile::create(dir.file("x"));
    ASSERT_THAT(file, Succeeds());
    EXPECT_THAT(file->append(bytes_of("new ")), Succeeds());
    EXPECT_THAT(file->append(bytes_of("text")), Succeeds());
    EXPECT_EQ(get(dir.file("x")), "old");
    EXPECT_THAT(file->commit(), Succeeds());
    EXPECT_EQ(get(dir.file("x")), "new text");
    EXPECT_THAT(file->append(bytes_of("more")), FailsWith(Error::kInternal, "after commit"));
    EXPECT_THAT(file->commit(), FailsWith(Error::kInternal, "twice"));
  }
  EXPECT_EQ(get(dir.file("x")), "new text");
  EXPECT_THAT(dir.names(), ElementsAre("x"));
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  TempDir dir;
  {
    auto file = AtomicFile::create(dir.file("x"));
    ASSERT_THAT(file, Succeeds());
    EXPECT_THAT(file->append(bytes_of("half")), Succeeds());
    EXPECT_EQ(dir.names().size(), 1u);
    AtomicFile moved = *std::move(file);  // the temporary goes with the last owner, once
  }
  EXPECT_THAT(dir.names(), ElementsAre());
}

TEST(AtomicFile, PermissionsFollowTheUmask) {
  TempDir dir;
  const mode_t old = ::umask(027);
  EXPECT_THAT(write_file_atomic(dir.file("x"), bytes_of("x")), Succeeds());
  ::umask(old);
  struct stat info {};
  ASSERT_EQ(::stat(dir.file("x").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(AtomicFile, AFullDiskLeavesTheOldFileAndNoTemporary) {
  TempDir dir;
  put(dir.file("x"), "old");
  const Bytes large(100000, 'x');
  Status status;
  {
    const FileSizeLimit limit(50000);
    status = write_file_atomic(dir.file("x"), large);
  }
  EXPECT_THAT(status, FailsWith(Error::kIo, dir.file("x")));
  EXPECT_THAT(message(status), HasSubstr("free some space or choose another --out"));
  EXPECT_EQ(get(dir.file("x")), "old");
  EXPECT_THAT(dir.names(), ElementsAre("x"));
}

TEST(AtomicFile, AnErrorSticks) {
  TempDir dir;
  auto file = AtomicFile::create(dir.file("x"));
  ASSERT_THAT(file, Succeeds());
  {
    const FileSizeLimit limit(10);
    EXPECT_FALSE(file->append(Bytes(100, 'x')).ok());
  }
  EXPECT_FALSE(file->append(bytes_of("y")).ok());
  EXPECT_FALSE(file->commit().ok());
  EXPECT_THAT(dir.names(), ElementsAre());
}

TEST(AtomicFile, SaysWhyItCannotBeMade) {
  TempDir dir;
  EXPECT_THAT(write_file_atomic(dir.file("no/x"), {}),
              FailsWith(Error::kNotFound, "check the path"));
  std::filesystem::create_directory(dir.file("d"));
  EXPECT_THAT(write_file_atomic(dir.file("d"), {}), FailsWith(Error::kInvalid, dir.file("d")));
  EXPECT_THAT(dir.names(), ElementsAre("d"));
  EXPECT_THAT(message(system_error("p", "write", ENOSPC)),
              HasSubstr("p: cannot write: No space left on device; free some space"));
}

TEST(DirLock, OneOwnerAtATime) {
  TempDir dir;
  {
    const auto lock = DirLock::take(dir.path());
    ASSERT_THAT(lock, Succeeds());
    EXPECT_THAT(DirLock::take(dir.path()),
                FailsWith(Error::kBusy, fmt::format("another tessera run (pid {}) is using {}",
                                                    ::getpid(), dir.path())));
  }
  EXPECT_THAT(DirLock::take(dir.path()), Succeeds());
  EXPECT_THAT(DirLock::take(dir.file("none")), FailsWith(Error::kNotFound, "none"));
}

TEST(DirLock, EndsWithItsProcess) {
  TempDir dir;
  int ready[2], stop[2];
  ASSERT_EQ(::pipe(ready) | ::pipe(stop), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto lock = DirLock::take(dir.path());
    char byte = lock.ok() ? 'y' : 'n';
    (void)!::write(ready[1], &byte, 1);
    (void)!::read(stop[0], &byte, 1);  // the parent kills us here
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_THAT(DirLock::take(dir.path()), FailsWith(Error::kBusy, fmt::format("(pid {})", child)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(DirLock::take(dir.path()), Succeeds());
  for (const int fd : {ready[0], ready[1], stop[0], stop[1]}) ::close(fd);
}

}  // namespace
}  // namespace tessera

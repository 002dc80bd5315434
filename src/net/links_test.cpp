// Links in a directory that somebody else has prepared: no file of a server or a client is written
// through one. And a process that holds keys leaves no core dump.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "io/testing.hpp"
#include "net/audit.hpp"
#include "net/private_file.hpp"
#include "net/spool.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::get;
using testing::put;
using testing::Succeeds;
using testing::TempDir;

constexpr const char* kVictimText = "precious";

/// dir/name is a link to a file that must stay as it is.
class LinkedDir {
 public:
  LinkedDir() { put(victim_, kVictimText); }
  ~LinkedDir() { EXPECT_EQ(get(victim_), kVictimText); }
  void link(const std::string& name) const {
    std::filesystem::create_symlink(victim_, dir.file(name));
  }
  void hard_link(const std::string& name) const {
    std::filesystem::create_hard_link(victim_, dir.file(name));
  }

  TempDir dir;

 private:
  TempDir other_;
  const std::string victim_ = other_.file("victim");
};

TEST(LinkedFiles, AnAuditLogIsNoLink) {
  const LinkedDir d;
  d.link("audit.jsonl");
  EXPECT_THAT(AuditLog::open(d.dir.file("audit.jsonl")),
              FailsWith(Error::kInvalid, "a symbolic link is not followed here"));
}

TEST(LinkedFiles, NorDoesItBecomeOne) {
  const LinkedDir d;
  const auto log = AuditLog::open(d.dir.file("audit.jsonl"));
  ASSERT_THAT(log, Succeeds());
  ASSERT_THAT((*log)->append({.kind = "train"}), Succeeds());
  std::filesystem::remove(d.dir.file("audit.jsonl"));
  d.link("audit.jsonl");
  EXPECT_THAT((*log)->append({.kind = "train"}), FailsWith(Error::kInvalid, "symbolic link"));
}

TEST(LinkedFiles, AKeyIsWrittenBesideAndNotThrough) {
  const LinkedDir d;
  d.link("key.pem");
  EXPECT_THAT(write_private_file(d.dir.file("key.pem"), "a key"), Succeeds());
  EXPECT_EQ(get(d.dir.file("key.pem")), "a key");
}

TEST(LinkedFiles, APartOfAReplyIsNoLink) {
  const LinkedDir d;
  const auto spool = Spool::open(d.dir.path());
  ASSERT_THAT(spool, Succeeds());
  const ReplyName soft{0, std::string(64, 'a')}, hard{0, std::string(64, 'b')};
  d.link("in/0-" + soft.ticket + ".part");
  d.hard_link("in/0-" + hard.ticket + ".part");
  for (const int64_t offset : {0, 8}) {
    EXPECT_THAT(spool->append(soft, offset, bytes_of("x")), FailsWith(Error::kInvalid, "link"));
    EXPECT_FALSE(spool->append(hard, offset, bytes_of("x")).ok());
  }
  d.link("out/0");
  EXPECT_THAT(spool->keep_settle(0, bytes_of("settle")), Succeeds());
  d.link("most");
  EXPECT_THAT(spool->keep_most(7), Succeeds());
  EXPECT_EQ(**spool->most(), 7);
}

TEST(LinkedFiles, NorAreTheSpoolsDirectories) {
  for (const std::string name : {"spool", "spool/in", "spool/out"}) {
    const TempDir dir, other;
    if (name != "spool") std::filesystem::create_directory(dir.file("spool"));
    std::filesystem::create_directory_symlink(other.path(), dir.file(name));
    EXPECT_THAT(Spool::open(dir.file("spool")), FailsWith(Error::kInvalid, "symbolic link"));
    EXPECT_TRUE(other.names().empty()) << name;
  }
}

TEST(PrivateMemory, LeavesNoCoreDump) {
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    keep_memory_private();
    rlimit cores{1, 1};
    ::getrlimit(RLIMIT_CORE, &cores);
    // What this program reads about itself can still be read.
    const bool reads = !get("/proc/self/statm").empty() && !get("/proc/self/cgroup").empty();
    ::_exit(cores.rlim_cur == 0 && cores.rlim_max == 0 &&
                    ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 && reads
                ? 0
                : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace tessera

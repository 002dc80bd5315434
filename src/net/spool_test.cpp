#include "net/spool.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "io/testing.hpp"
#include "net/ticket.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::get;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::put;
using testing::Succeeds;
using testing::TempDir;
using testing::to_bytes;

const std::string kTicketA(64, 'a');
const std::string kTicketB(64, 'b');

// Writes beyond `bytes` fail with EFBIG, as on a full disk, while this lives.
class SpoolDiskLimit {
 public:
  explicit SpoolDiskLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SpoolDiskLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

std::vector<std::string> spool_names(const std::string& dir) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir))
    if (entry.is_regular_file())
      out.push_back(std::filesystem::relative(entry.path(), dir).string());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> listed(const Spool& spool) {
  std::vector<std::string> out;
  const auto replies = spool.replies();
  if (!replies.ok()) return {message(replies.status())};
  for (const auto& reply : *replies)
    out.push_back(fmt::format("{}-{} {} {}", reply.name.member, reply.name.ticket[0], reply.size,
                              reply.complete ? "complete" : "part"));
  return out;
}

TEST(Spool, KeepsOneSettlePerMember) {
  TempDir dir;
  const auto spool = Spool::open(dir.path());
  ASSERT_THAT(spool, Succeeds());
  EXPECT_THAT(spool->keep_settle(3, bytes_of("old")), Succeeds());
  EXPECT_THAT(spool->keep_settle(3, bytes_of("new")), Succeeds());
  EXPECT_THAT(spool->keep_settle(12, bytes_of("other")), Succeeds());
  EXPECT_THAT(spool_names(dir.path()), ElementsAre("format", "out/12", "out/3"));
  const auto again = Spool::open(dir.path());
  ASSERT_THAT(again, Succeeds());
  EXPECT_THAT(*again->settles(),
              ElementsAre(Pair(3, to_bytes("new")), Pair(12, to_bytes("other"))));
  EXPECT_THAT(again->drop_settle(3), Succeeds());
  EXPECT_THAT(again->drop_settle(3), Succeeds());
  EXPECT_THAT(*again->settles(), ElementsAre(Pair(12, to_bytes("other"))));
  EXPECT_THAT(again->keep_settle(-1, bytes_of("x")), FailsWith(Error::kInvalid, "-1"));
}

TEST(Spool, APartGrowsAndIsResumedAndBecomesTheReply) {
  TempDir dir;
  const ReplyName name{7, kTicketA};
  {
    const auto spool = Spool::open(dir.path());
    ASSERT_THAT(spool, Succeeds());
    EXPECT_EQ(spool->part_size(name), 0);
    EXPECT_THAT(spool->append(name, 0, bytes_of("one ")), Succeeds());
    EXPECT_THAT(spool->append({8, kTicketB}, 0, {}), Succeeds());
  }
  const auto spool = Spool::open(dir.path());
  ASSERT_THAT(spool, Succeeds());
  EXPECT_THAT(listed(*spool), ElementsAre("7-a 4 part", "8-b 0 part"));
  EXPECT_THAT(spool->append(name, 3, bytes_of("x")), FailsWith(Error::kInvalid, "has 4 bytes"));
  EXPECT_THAT(spool->append(name, 5, bytes_of("x")), FailsWith(Error::kInvalid, kTicketA));
  EXPECT_THAT(spool->append(name, 4, bytes_of("two")), Succeeds());
  EXPECT_EQ(spool->part_size(name), 7);
  EXPECT_EQ(*spool->read_part(name, 7), to_bytes("one two"));
  EXPECT_THAT(spool->read_part(name, 6), FailsWith(Error::kInvalid, kTicketA));
  EXPECT_THAT(spool->read(name, 7), FailsWith(Error::kNotFound, kTicketA));
  EXPECT_THAT(spool->finish(name), Succeeds());
  EXPECT_EQ(*spool->read(name, 7), to_bytes("one two"));
  EXPECT_THAT(listed(*Spool::open(dir.path())), ElementsAre("7-a 7 complete", "8-b 0 part"));
  EXPECT_THAT(spool->drop(name), Succeeds());
  EXPECT_THAT(spool->drop(name), Succeeds());
  EXPECT_THAT(spool->finish(name), FailsWith(Error::kNotFound, kTicketA));
  EXPECT_THAT(listed(*spool), ElementsAre("8-b 0 part"));
}

TEST(Spool, NamesThatAreNoneOfOursAreRefusedAndFilesOfSuchNamesLeftAlone) {
  TempDir dir;
  const auto spool = Spool::open(dir.path());
  ASSERT_THAT(spool, Succeeds());
  for (const std::string& ticket : {std::string("../../etc/passwd"), std::string(),
                                    std::string(64, 'A'), std::string(63, 'a')}) {
    const ReplyName name{1, ticket};
    EXPECT_THAT(spool->append(name, 0, bytes_of("x")), FailsWith(Error::kInvalid, "no ticket"));
    EXPECT_THAT(spool->finish(name), FailsWith(Error::kInvalid, "no ticket"));
    EXPECT_THAT(spool->drop(name), FailsWith(Error::kInvalid, "no ticket"));
    EXPECT_THAT(spool->read(name, 9), FailsWith(Error::kInvalid, "no ticket"));
    EXPECT_THAT(spool->read_part(name, 9), FailsWith(Error::kInvalid, "no ticket"));
  }
  EXPECT_THAT(spool->append({-2, kTicketA}, 0, {}), FailsWith(Error::kInvalid, "-2"));
  const std::vector<std::string> foreign = {"in/-1-" + kTicketA,
                                            "in/007-" + kTicketA,
                                            "in/1-" + kTicketA + "x",
                                            "in/1-" + kTicketA + ".part.part",
                                            "in/notes",
                                            "notes",
                                            "out/-3",
                                            "out/01",
                                            "out/1.tmp.2",
                                            "out/x.tmp.1.2",
                                            "out/1 ",
                                            "format.tmp"};
  for (const auto& name : foreign) put(dir.file(name), "theirs");
  ::mkdir(dir.file("in/5-" + kTicketB).c_str(), 0700);
  std::filesystem::create_symlink("/dev/null", dir.file("out/9"));
  const auto again = Spool::open(dir.path());
  ASSERT_THAT(again, Succeeds());
  EXPECT_THAT(listed(*again), IsEmpty());
  EXPECT_THAT(*again->settles(), IsEmpty());
  for (const auto& name : foreign) EXPECT_EQ(get(dir.file(name)), "theirs") << name;
}

TEST(Spool, ClearsTemporariesThatAKilledProcessHasLeft) {
  TempDir dir;
  ASSERT_THAT(Spool::open(dir.path()), Succeeds());
  put(dir.file("format.tmp.123.0"), "1");
  put(dir.file("out/4.tmp.123.1"), "half a set");
  ASSERT_THAT(Spool::open(dir.path()), Succeeds());
  EXPECT_THAT(spool_names(dir.path()), ElementsAre("format"));
}

TEST(Spool, RefusesANewerFormatAndTouchesNothing) {
  TempDir dir;
  put(dir.file("format"), "2\n");
  put(dir.file("format.tmp.1.1"), "");
  EXPECT_THAT(Spool::open(dir.path()), FailsWith(Error::kInvalid, "newer format 2"));
  EXPECT_THAT(dir.names(), ElementsAre("format", "format.tmp.1.1"));
  put(dir.file("format"), "hello");
  EXPECT_THAT(Spool::open(dir.path()), FailsWith(Error::kInvalid, dir.file("format")));
  put(dir.file("format"), "1");
  EXPECT_THAT(Spool::open(dir.path()), Succeeds());
  put(dir.file("file"), "");
  EXPECT_THAT(Spool::open(dir.file("file")), FailsWith(Error::kInvalid, "in the way"));
}

TEST(Spool, AFullDiskLeavesThePartAsItWas) {
  TempDir dir;
  const auto spool = Spool::open(dir.path());
  ASSERT_THAT(spool, Succeeds());
  const ReplyName name{0, kTicketA};
  const Bytes piece(600, 'x');
  ASSERT_THAT(spool->append(name, 0, piece), Succeeds());
  {
    const SpoolDiskLimit full(1000);  // the second piece fits by two thirds
    EXPECT_THAT(spool->append(name, 600, piece), FailsWith(Error::kIo, kTicketA));
    EXPECT_EQ(spool->part_size(name), 600);
    EXPECT_THAT(spool->keep_settle(1, Bytes(1001)), FailsWith(Error::kIo, "out/1"));
    EXPECT_THAT(spool->append({1, kTicketB}, 0, piece), Succeeds());
  }
  EXPECT_THAT(spool_names(dir.path()),
              ElementsAre("format", "in/0-" + kTicketA + ".part", "in/1-" + kTicketB + ".part"));
  EXPECT_THAT(spool->append(name, 600, piece), Succeeds());
  EXPECT_EQ(*spool->read_part(name, 1200), Bytes(1200, 'x'));
}

TEST(Spool, AnUploadThatCannotBeMadeDurableIsGone) {
  TempDir dir;
  const auto spool = Spool::open(dir.path());
  ASSERT_THAT(spool, Succeeds());
  const ReplyName name{0, kTicketA};
  ASSERT_THAT(spool->append(name, 0, bytes_of("x")), Succeeds());
  ::mkdir(dir.file("in/0-" + kTicketA).c_str(), 0700);  // no file can be renamed to this
  EXPECT_FALSE(spool->finish(name).ok());
  EXPECT_EQ(spool->part_size(name), 0);
}

TEST(Ticket, IsTheDigestInLowerCaseHex) {
  // FIPS 180-2, B.1.
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  EXPECT_EQ(ticket_of(bytes_of("abc")), abc);
  EXPECT_TRUE(is_ticket(abc));
  for (const auto& text : {std::string(), abc + "0", abc.substr(1), std::string(64, 'g'),
                           std::string(64, 'F'), "/" + abc.substr(1)})
    EXPECT_FALSE(is_ticket(text)) << text;
}

}  // namespace
}  // namespace tessera

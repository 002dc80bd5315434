#include "net/task_board.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <thread>

#include "net/board_testing.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::fetched;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::open_board;
using testing::reply_with;
using ::testing::SizeIs;
using testing::spooled;
using testing::Succeeds;
using testing::taken;
using testing::task_bytes;
using testing::TempDir;
using testing::ticket_for;
using testing::told;

TEST(TaskBoard, ATaskIsOfferedFetchedAnsweredAndDelivered) {
  TempDir dir;
  const auto board = open_board(dir.path());
  const auto task = task_bytes("train this");
  EXPECT_EQ(told(*board, 1), "nothing");
  ASSERT_THAT(board->post(1, task), Succeeds());
  EXPECT_EQ(task.use_count(), 2);  // held once, whoever fetches it
  const auto answer = board->poll(1, testing::in_time());
  EXPECT_EQ(answer.kind, PollAnswer::Kind::kTask);
  EXPECT_EQ(answer.offer.ticket, ticket_for("train this"));
  EXPECT_EQ(answer.offer.size, 10);
  EXPECT_EQ(told(*board, 0), "nothing");
  EXPECT_EQ(told(*board, 1), "task train this");
  EXPECT_EQ(told(*board, 1), "task train this");  // a client that was restarted fetches it anew
  EXPECT_EQ(taken(*board), "nothing");

  const auto& ticket = answer.offer.ticket;
  EXPECT_EQ(*board->stored(1, ticket), 0);
  ASSERT_THAT(board->write(1, ticket, 0, bytes_of("the ")), Succeeds());
  EXPECT_EQ(*board->stored(1, ticket), 4);
  ASSERT_THAT(reply_with(*board, 1, ticket, "the upload"), Succeeds());
  EXPECT_EQ(task.use_count(), 1);
  EXPECT_EQ(told(*board, 1), "nothing");
  EXPECT_EQ(taken(*board), "1 the upload");
  EXPECT_EQ(taken(*board), "nothing");
  EXPECT_THAT(spooled(dir.path()), ElementsAre("in/1-" + ticket.substr(0, 4)));
  ASSERT_THAT(board->forget_delivered(), Succeeds());
  EXPECT_THAT(spooled(dir.path()), IsEmpty());
}

TEST(TaskBoard, ReadsAnyPieceOfTheTaskAndNothingElse) {
  TempDir dir;
  const auto board = open_board(dir.path());
  ASSERT_THAT(board->post(0, task_bytes("0123456789")), Succeeds());
  const auto ticket = ticket_for("0123456789");
  EXPECT_EQ(text_of(*board->read(0, ticket, 0, 3)), "012");
  EXPECT_EQ(text_of(*board->read(0, ticket, 8, 100)), "89");
  EXPECT_EQ(text_of(*board->read(0, ticket, 10, 1)), "");
  EXPECT_THAT(board->read(0, ticket, 11, 1), FailsWith(Error::kInvalid, "of 10 bytes"));
  EXPECT_THAT(board->read(0, ticket, -1, 1), FailsWith(Error::kInvalid, "of 10 bytes"));
  EXPECT_THAT(board->read(0, ticket, 0, 0), FailsWith(Error::kInvalid, "of 10 bytes"));
  EXPECT_THAT(board->read(1, ticket, 0, 1), FailsWith(Error::kNotFound, "not this member's task"));
  EXPECT_THAT(board->read(0, "../x", 0, 1), FailsWith(Error::kNotFound, "not this member's task"));
  EXPECT_THAT(board->read(3, ticket, 0, 1), FailsWith(Error::kInvalid, "no member 3"));
  EXPECT_THAT(board->read(-1, ticket, 0, 1), FailsWith(Error::kInvalid, "no member -1"));
  ASSERT_THAT(reply_with(*board, 0, ticket, "x"), Succeeds());
  EXPECT_THAT(board->read(0, ticket, 0, 1), FailsWith(Error::kNotFound, "answered already"));
}

TEST(TaskBoard, SettlesGoFirstTasksFollowInOrder) {
  TempDir dir;
  const auto board = open_board(dir.path());
  ASSERT_THAT(board->post(0, task_bytes("first")), Succeeds());
  ASSERT_THAT(board->post(0, task_bytes("second")), Succeeds());
  ASSERT_THAT(board->post(0, task_bytes("first")), Succeeds());  // is there already
  ASSERT_THAT(board->post_settle(0, task_bytes("keep it")), Succeeds());
  EXPECT_THAT(spooled(dir.path()), ElementsAre("out/0"));
  EXPECT_EQ(told(*board, 0), "task keep it");
  ASSERT_THAT(reply_with(*board, 0, ticket_for("keep it"), "done"), Succeeds());
  EXPECT_EQ(taken(*board), "nothing");
  EXPECT_EQ(told(*board, 0), "task first");
  ASSERT_THAT(reply_with(*board, 0, ticket_for("first"), "1"), Succeeds());
  EXPECT_EQ(told(*board, 0), "task second");
  ASSERT_THAT(reply_with(*board, 0, ticket_for("second"), "2"), Succeeds());
  EXPECT_EQ(told(*board, 0), "nothing");
  EXPECT_EQ(taken(*board), "0 1");
  EXPECT_EQ(taken(*board), "0 2");
  ASSERT_THAT(board->forget_delivered(), Succeeds());
  EXPECT_THAT(spooled(dir.path()), IsEmpty());
}

TEST(TaskBoard, ASettleThatWaitsIsNotLostToOneAboutATaskThatWasNeverSeen) {
  TempDir dir;
  const auto board = open_board(dir.path());
  ASSERT_THAT(board->post(0, task_bytes("round 5")), Succeeds());
  ASSERT_THAT(reply_with(*board, 0, ticket_for("round 5"), "up"), Succeeds());
  ASSERT_THAT(board->post_settle(0, task_bytes("keep 5")), Succeeds());
  // The member is away in round 6.
  ASSERT_THAT(board->post(0, task_bytes("round 6")), Succeeds());
  board->withdraw(0, ticket_for("round 6"));
  ASSERT_THAT(board->post_settle(0, task_bytes("forget 6")), Succeeds());
  EXPECT_EQ(told(*board, 0), "task keep 5");
  EXPECT_EQ(testing::get(dir.file("out/0")), "keep 5");
  ASSERT_THAT(reply_with(*board, 0, ticket_for("keep 5"), "ok"), Succeeds());
  EXPECT_EQ(told(*board, 0), "nothing");
  EXPECT_THAT(board->stored(0, ticket_for("forget 6")), FailsWith(Error::kNotFound, "not this"));
}

TEST(TaskBoard, RefusesUploadsThatAreNotForAnOpenTicketOfTheMember) {
  TempDir dir;
  const auto board = open_board(dir.path());
  ASSERT_THAT(board->post(0, task_bytes("mine")), Succeeds());
  ASSERT_THAT(board->post(1, task_bytes("theirs")), Succeeds());
  const auto expect_refused = [&](int64_t member, const std::string& ticket, const char* text) {
    EXPECT_THAT(board->stored(member, ticket), FailsWith(Error::kNotFound, text));
    EXPECT_THAT(board->write(member, ticket, 0, bytes_of("x")), FailsWith(Error::kNotFound, text));
    EXPECT_THAT(board->complete(member, ticket, 1, sha256_hex(bytes_of("x"))),
                FailsWith(Error::kNotFound, text));
  };
  expect_refused(0, ticket_for("theirs"), "not this member's task");
  expect_refused(0, std::string(64, '0'), "not this member's task");
  expect_refused(0, "../../out/0", "not this member's task");
  expect_refused(0, "", "not this member's task");
  EXPECT_THAT(board->write(9, ticket_for("mine"), 0, {}), FailsWith(Error::kInvalid, "member 9"));

  ASSERT_THAT(board->write(0, ticket_for("mine"), 0, bytes_of("half")), Succeeds());
  EXPECT_EQ(spooled(dir.path()).size(), 1u);
  board->withdraw(0, ticket_for("mine"));
  EXPECT_THAT(spooled(dir.path()), IsEmpty());
  expect_refused(0, ticket_for("mine"), "late: ");
  EXPECT_THAT(board->read(0, ticket_for("mine"), 0, 1), FailsWith(Error::kNotFound, "late: "));
  EXPECT_EQ(told(*board, 0), "nothing");
  // Asked again it is a task like any other.
  ASSERT_THAT(board->post(0, task_bytes("mine")), Succeeds());
  EXPECT_EQ(told(*board, 0), "task mine");
  ASSERT_THAT(reply_with(*board, 0, ticket_for("mine"), "whole"), Succeeds());
  EXPECT_EQ(taken(*board), "0 whole");
}

TEST(TaskBoard, AReplayOfAnEarlierRoundHasNoEffect) {
  TempDir dir;
  const auto board = open_board(dir.path());
  for (int round = 0; round < 10; ++round) {
    const auto task = fmt::format("round {}", round);
    ASSERT_THAT(board->post(0, task_bytes(task)), Succeeds());
    ASSERT_THAT(reply_with(*board, 0, ticket_for(task), "up"), Succeeds());
    ASSERT_EQ(taken(*board), "0 up");
    ASSERT_THAT(board->forget_delivered(), Succeeds());
  }
  ASSERT_THAT(board->post(0, task_bytes("round 10")), Succeeds());
  EXPECT_THAT(reply_with(*board, 0, ticket_for("round 0"), "up"),
              FailsWith(Error::kNotFound, "not this member's task"));
  EXPECT_THAT(reply_with(*board, 0, ticket_for("round 9"), "forged"), Succeeds());
  EXPECT_THAT(spooled(dir.path()), IsEmpty());
  EXPECT_EQ(taken(*board), "nothing");
  EXPECT_EQ(told(*board, 0), "task round 10");
}

TEST(TaskBoard, AWrongOffsetSizeOrChecksumIsRefusedAndCanBeMended) {
  TempDir dir;
  const auto board = open_board(dir.path());
  ASSERT_THAT(board->post(0, task_bytes("task")), Succeeds());
  const auto ticket = ticket_for("task");
  const auto sha = sha256_hex(bytes_of("right"));
  EXPECT_THAT(board->write(0, ticket, 1, bytes_of("x")), FailsWith(Error::kInvalid, "at 0, not"));
  EXPECT_THAT(board->write(0, ticket, -1, bytes_of("x")), FailsWith(Error::kInvalid, "at 0, not"));
  EXPECT_THAT(board->complete(0, ticket, 0, sha256_hex({})),
              FailsWith(Error::kInvalid, "one byte"));
  EXPECT_THAT(board->complete(0, ticket, 5, sha), FailsWith(Error::kInvalid, "0 of 5"));
  // Bytes are missing: what is there stays.
  ASSERT_THAT(board->write(0, ticket, 0, bytes_of("wro")), Succeeds());
  EXPECT_THAT(board->complete(0, ticket, 5, sha), FailsWith(Error::kInvalid, "3 of 5"));
  EXPECT_EQ(*board->stored(0, ticket), 3);
  // Others: it begins anew.
  ASSERT_THAT(board->write(0, ticket, 3, bytes_of("ng")), Succeeds());
  EXPECT_THAT(board->complete(0, ticket, 5, sha), FailsWith(Error::kInvalid, "send it anew"));
  EXPECT_EQ(*board->stored(0, ticket), 0);
  EXPECT_THAT(spooled(dir.path()), IsEmpty());
  // Too many: the same.
  ASSERT_THAT(board->write(0, ticket, 0, bytes_of("righty")), Succeeds());
  EXPECT_THAT(board->complete(0, ticket, 5, sha), FailsWith(Error::kInvalid, "send it anew"));
  EXPECT_EQ(taken(*board), "nothing");
  EXPECT_THAT(reply_with(*board, 0, ticket, "right"), Succeeds());
  EXPECT_EQ(taken(*board), "0 right");
}

TEST(TaskBoard, ATooLargeReplyIsRefusedAtTheChunkThatMakesItSo) {
  TempDir dir;
  const auto board = open_board(dir.path());  // 100 bytes, whatever a task says
  const auto refused = "a reply of more than 100 bytes is refused";
  for (const int64_t most : {0, 100, 1000}) {
    const auto task = fmt::format("task {}", most);
    const auto ticket = ticket_for(task);
    ASSERT_THAT(board->post(0, task_bytes(task), "", most), Succeeds());
    ASSERT_THAT(board->write(0, ticket, 0, Bytes(60)), Succeeds());
    EXPECT_THAT(spooled(dir.path()), SizeIs(1));
    EXPECT_THAT(board->write(0, ticket, 60, Bytes(41)), FailsWith(Error::kInvalid, refused));
    EXPECT_THAT(spooled(dir.path()), IsEmpty());
    // Nobody waits for it any longer, and what still comes is late.
    EXPECT_EQ(told(*board, 0), "nothing");
    EXPECT_THAT(taken(*board), HasSubstr(std::string("0 refused: ") + refused));
    EXPECT_EQ(taken(*board), "nothing");
    EXPECT_THAT(board->stored(0, ticket), FailsWith(Error::kNotFound, "late: a reply of more"));
    EXPECT_THAT(board->write(0, ticket, 0, Bytes(1)), FailsWith(Error::kNotFound, "late"));
  }
}

TEST(TaskBoard, ARefusedReplyIsOneWithdrawnOrAskedForAgain) {
  TempDir dir;
  const auto board = open_board(dir.path());
  const auto ticket = ticket_for("task");
  ASSERT_THAT(board->post(0, task_bytes("task"), "", 5), Succeeds());
  EXPECT_THAT(board->write(0, ticket, 0, Bytes(6)), FailsWith(Error::kInvalid, "more than 5"));
  board->withdraw(0, ticket);
  EXPECT_EQ(taken(*board), "nothing") << "next() never gives what was withdrawn";
  ASSERT_THAT(board->post(0, task_bytes("task"), "", 5), Succeeds());
  EXPECT_EQ(told(*board, 0), "task task");
  EXPECT_THAT(reply_with(*board, 0, ticket, "right"), Succeeds());
  EXPECT_EQ(taken(*board), "0 right");
}

TEST(TaskBoard, AVanishedDirectoryIsTheDisksTroubleAndNotTheTickets) {
  TempDir dir;
  const auto board = open_board(dir.path());
  const auto ticket = ticket_for("task");
  ASSERT_THAT(board->post(0, task_bytes("task")), Succeeds());
  ASSERT_THAT(board->write(0, ticket, 0, bytes_of("x")), Succeeds());
  std::filesystem::remove_all(dir.file("in"));
  // A client that hears kNotFound asks for its task at once again, and again.
  EXPECT_THAT(board->write(0, ticket, 1, bytes_of("y")), FailsWith(Error::kIo, "cannot open"));
}

TEST(TaskBoard, AnAnswerToASettleIsSmallAndItWaitsOn) {
  TempDir dir;
  auto board = *TaskBoard::open(dir.path(), {.members = 1});
  const auto ticket = ticket_for("settle");
  ASSERT_THAT(board->post_settle(0, task_bytes("settle")), Succeeds());
  EXPECT_THAT(board->write(0, ticket, 0, Bytes(kMostSettleReply + 1)),
              FailsWith(Error::kInvalid, "more than 65536"));
  EXPECT_THAT(spooled(dir.path()), ElementsAre("out/0"));
  EXPECT_EQ(told(*board, 0), "task settle");
  EXPECT_THAT(reply_with(*board, 0, ticket, "done"), Succeeds());
  EXPECT_EQ(told(*board, 0), "nothing");
}

TEST(TaskBoard, ALostAcknowledgementCanBeAskedForAgain) {
  TempDir dir;
  const auto board = open_board(dir.path());
  const auto ticket = ticket_for("task"), settle = ticket_for("settle");
  const auto repeat = [&](const std::string& which) {
    EXPECT_EQ(*board->stored(0, which), 5);
    EXPECT_THAT(board->write(0, which, 5, bytes_of("more")), Succeeds());
    EXPECT_THAT(board->complete(0, which, 5, sha256_hex(bytes_of("reply"))), Succeeds());
    // A client that was restarted may have computed something else: the first reply counts.
    EXPECT_THAT(board->complete(0, which, 7, sha256_hex(bytes_of("another"))), Succeeds());
  };
  ASSERT_THAT(board->post(0, task_bytes("task")), Succeeds());
  ASSERT_THAT(reply_with(*board, 0, ticket, "reply"), Succeeds());
  repeat(ticket);
  EXPECT_EQ(taken(*board), "0 reply");
  repeat(ticket);
  ASSERT_THAT(board->post_settle(0, task_bytes("settle")), Succeeds());
  ASSERT_THAT(reply_with(*board, 0, settle, "reply"), Succeeds());
  repeat(settle);
  ASSERT_THAT(board->forget_delivered(), Succeeds());
  repeat(ticket);
  repeat(settle);
  EXPECT_EQ(taken(*board), "nothing");
  EXPECT_THAT(spooled(dir.path()), IsEmpty());
}

TEST(TaskBoard, AWithdrawnReplyIsNeverGiven) {
  TempDir dir;
  const auto board = open_board(dir.path());
  ASSERT_THAT(board->post(0, task_bytes("a")), Succeeds());
  ASSERT_THAT(board->post(1, task_bytes("a")), Succeeds());
  ASSERT_THAT(reply_with(*board, 0, ticket_for("a"), "zero"), Succeeds());
  ASSERT_THAT(reply_with(*board, 1, ticket_for("a"), "one"), Succeeds());
  board->withdraw(0, ticket_for("a"));
  EXPECT_EQ(taken(*board), "1 one");
  board->withdraw(1, ticket_for("a"));  // given already: stays until it is in a checkpoint
  board->withdraw(1, "unknown");
  board->withdraw(77, ticket_for("a"));
  EXPECT_EQ(spooled(dir.path()).size(), 1u);
  EXPECT_THAT(reply_with(*board, 0, ticket_for("a"), "zero"), Succeeds());  // acknowledged before
  EXPECT_EQ(taken(*board), "nothing");
  // Repeated in the same process: what was given is given again, what was dropped is asked again.
  ASSERT_THAT(board->post(0, task_bytes("a")), Succeeds());
  ASSERT_THAT(board->post(1, task_bytes("a")), Succeeds());
  EXPECT_EQ(taken(*board), "1 one");
  EXPECT_EQ(told(*board, 0), "task a");
  EXPECT_EQ(told(*board, 1), "nothing");
}

TEST(TaskBoard, AMemberThatWasSentAwayIsToldSoUntilItIsBack) {
  TempDir dir;
  const auto board = open_board(dir.path());
  ASSERT_THAT(board->post(0, task_bytes("done")), Succeeds());
  ASSERT_THAT(reply_with(*board, 0, ticket_for("done"), "up"), Succeeds());
  ASSERT_THAT(board->post(0, task_bytes("task")), Succeeds());
  ASSERT_THAT(board->write(0, ticket_for("task"), 0, bytes_of("half")), Succeeds());
  board->send_away(0, "its certificate was revoked");
  EXPECT_EQ(told(*board, 0), "gone: its certificate was revoked");
  EXPECT_FALSE(board->member(0).offered);
  EXPECT_THAT(reply_with(*board, 0, ticket_for("task"), "whole"),
              FailsWith(Error::kNotFound, "late: its certificate was revoked"));
  EXPECT_THAT(board->post(0, task_bytes("new")), FailsWith(Error::kNotFound, "revoked"));
  EXPECT_EQ(taken(*board), "0 up");
  ASSERT_THAT(board->post_settle(0, task_bytes("keep it")), Succeeds());
  EXPECT_EQ(told(*board, 0), "gone: its certificate was revoked");
  board->readmit(0);
  EXPECT_EQ(told(*board, 0), "task keep it");
  ASSERT_THAT(reply_with(*board, 0, ticket_for("keep it"), "ok"), Succeeds());
  ASSERT_THAT(board->post(0, task_bytes("new")), Succeeds());
  EXPECT_EQ(told(*board, 0), "task new");
  EXPECT_THAT(told(*board, 3), ::testing::StartsWith("gone: there is no member 3"));
  board->send_away(3, ""), board->readmit(3);
}

TEST(TaskBoard, AfterTheEndWaitingSettlesAreStillTold) {
  TempDir dir;
  const auto board = open_board(dir.path());
  ASSERT_THAT(board->post_settle(0, task_bytes("keep it")), Succeeds());
  ASSERT_THAT(board->post(0, task_bytes("task")), Succeeds());
  ASSERT_THAT(board->post(1, task_bytes("task")), Succeeds());
  board->finish();
  EXPECT_EQ(told(*board, 0), "task keep it");
  ASSERT_THAT(reply_with(*board, 0, ticket_for("keep it"), "ok"), Succeeds());
  EXPECT_EQ(told(*board, 0), "finished");
  EXPECT_EQ(told(*board, 1), "finished");
  EXPECT_THAT(reply_with(*board, 1, ticket_for("task"), "x"),
              FailsWith(Error::kNotFound, "late: the federation has ended"));
  EXPECT_THAT(board->post(1, task_bytes("more")), FailsWith(Error::kInvalid, "has ended"));
}

TEST(TaskBoard, WakeEndsOneWait) {
  TempDir dir;
  const auto board = open_board(dir.path());
  ASSERT_THAT(board->post(0, task_bytes("task")), Succeeds());
  ASSERT_THAT(reply_with(*board, 0, ticket_for("task"), "up"), Succeeds());
  board->wake();
  EXPECT_FALSE(board->next(testing::in_time()).has_value());
  EXPECT_EQ(taken(*board), "0 up");
  std::thread other([&] { board->wake(); });
  EXPECT_FALSE(board->next(testing::in_time()).has_value());
  other.join();
}

TEST(TaskBoard, TellsTheStateOfAMember) {
  TempDir dir;
  const auto board = open_board(dir.path());
  EXPECT_EQ(board->member(0).seconds_since_poll, -1);
  EXPECT_EQ(board->member(5).seconds_since_poll, -1);
  EXPECT_FALSE(board->member(0).offered);
  ASSERT_THAT(board->post(0, task_bytes("task")), Succeeds());
  EXPECT_TRUE(board->member(0).offered);
  board->poll(0, testing::at_once());
  EXPECT_GE(board->member(0).seconds_since_poll, 0);
  EXPECT_FALSE(board->member(0).fetched);
  EXPECT_EQ(fetched(*board, 0, ticket_for("task")), "task");
  EXPECT_TRUE(board->member(0).fetched);
  ASSERT_THAT(board->write(0, ticket_for("task"), 0, bytes_of("four")), Succeeds());
  EXPECT_EQ(board->member(0).uploaded, 4);
  EXPECT_FALSE(board->member(0).settle_waits);
  ASSERT_THAT(board->post_settle(0, task_bytes("settle")), Succeeds());
  EXPECT_TRUE(board->member(0).settle_waits);
  EXPECT_FALSE(board->member(0).fetched);
  EXPECT_EQ(board->member(0).uploaded, 0);
}

TEST(TaskBoard, RefusesEmptyTasksAndUnknownMembers) {
  TempDir dir;
  const auto board = open_board(dir.path());
  EXPECT_THAT(board->post(0, nullptr), FailsWith(Error::kInvalid, "no bytes"));
  EXPECT_THAT(board->post(0, task_bytes("")), FailsWith(Error::kInvalid, "no bytes"));
  EXPECT_THAT(board->post_settle(0, task_bytes("")), FailsWith(Error::kInvalid, "no bytes"));
  EXPECT_THAT(board->post(3, task_bytes("x")), FailsWith(Error::kInvalid, "member 3"));
  EXPECT_THAT(board->post_settle(-1, task_bytes("x")), FailsWith(Error::kInvalid, "member -1"));
}

TEST(TaskBoard, AFullDiskCostsTheUploadNotTheServer) {
  TempDir dir;
  auto opened = TaskBoard::open(dir.path(), {.members = 2});
  ASSERT_THAT(opened, Succeeds());
  TaskBoard& board = **opened;
  ASSERT_THAT(board.post(0, task_bytes("task")), Succeeds());
  ASSERT_THAT(board.post(1, task_bytes("task")), Succeeds());
  const auto ticket = ticket_for("task");
  const std::string large(3000, 'x');
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{2000, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &full);
  EXPECT_THAT(board.write(0, ticket, 0, bytes_of(large).first(1500)), Succeeds());
  EXPECT_THAT(board.write(0, ticket, 1500, bytes_of(large).subspan(1500)),
              FailsWith(Error::kIo, ticket));
  EXPECT_EQ(*board.stored(0, ticket), 1500);
  EXPECT_THAT(reply_with(board, 1, ticket, "small"), Succeeds());
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(taken(board), "1 small");
  // There is room again: it goes on where it was.
  EXPECT_THAT(reply_with(board, 0, ticket, large), Succeeds());
  EXPECT_EQ(taken(board), "0 " + large);
}

}  // namespace
}  // namespace tessera

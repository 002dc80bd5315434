// A server that is killed and started again, and many threads at once.
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <thread>

#include "io/file.hpp"
#include "net/board_testing.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::fetched;
using ::testing::IsEmpty;
using testing::open_board;
using testing::reply_with;
using testing::spooled;
using testing::Succeeds;
using testing::taken;
using testing::task_bytes;
using testing::TempDir;
using testing::ticket_for;
using testing::told;
using ::testing::UnorderedElementsAreArray;

TEST(TaskBoardRestart, ACompleteReplyAnswersTheRepeatedTask) {
  TempDir dir;
  {
    const auto board = open_board(dir.path());
    for (const int64_t member : {0, 1, 2}) {
      ASSERT_THAT(board->post(member, task_bytes("round 1")), Succeeds());
      if (member < 2) {
        ASSERT_THAT(reply_with(*board, member, ticket_for("round 1"), "up"), Succeeds());
      }
    }
    EXPECT_EQ(taken(*board), "0 up");  // given or not: no checkpoint has it
  }
  const auto board = open_board(dir.path());
  EXPECT_EQ(taken(*board), "nothing");
  for (const int64_t member : {0, 1, 2})
    ASSERT_THAT(board->post(member, task_bytes("round 1")), Succeeds());
  EXPECT_EQ(taken(*board), "0 up");
  EXPECT_EQ(taken(*board), "1 up");
  EXPECT_EQ(taken(*board), "nothing");
  EXPECT_EQ(told(*board, 0), "nothing");
  EXPECT_EQ(told(*board, 2), "task round 1");
}

TEST(TaskBoardRestart, WhatWasAllowedAtMostHoldsForTicketsThatNobodyHasPostedYet) {
  TempDir dir;
  const auto ticket = ticket_for("round 1");
  {
    const auto board = open_board(dir.path());
    for (const int64_t member : {0, 1, 2}) {
      ASSERT_THAT(board->post(member, task_bytes("round 1"), "", 20), Succeeds());
      EXPECT_EQ(fetched(*board, member, ticket), "round 1");
    }
  }
  const auto board = open_board(dir.path());  // 100 bytes
  EXPECT_THAT(board->write(0, ticket, 0, Bytes(21)),
              FailsWith(Error::kInvalid, "more than 20 bytes"));
  ASSERT_THAT(reply_with(*board, 0, ticket, std::string(20, 'x')), Succeeds());
  // What is there and is more than the task allows now does not count.
  ASSERT_THAT(reply_with(*board, 1, ticket, std::string(20, 'y')), Succeeds());
  ASSERT_THAT(board->write(2, ticket, 0, Bytes(20)), Succeeds());
  ASSERT_THAT(board->post(0, task_bytes("round 1"), "", 20), Succeeds());
  for (const int64_t member : {1, 2})
    ASSERT_THAT(board->post(member, task_bytes("round 1"), "", 19), Succeeds());
  EXPECT_EQ(taken(*board), "0 " + std::string(20, 'x'));
  EXPECT_EQ(taken(*board), "nothing");
  for (const int64_t member : {1, 2}) {
    EXPECT_EQ(*board->stored(member, ticket), 0);
    EXPECT_EQ(told(*board, member), "task round 1");
  }
}

TEST(TaskBoardRestart, WhatIsInACheckpointDoesNotComeBack) {
  TempDir dir;
  {
    const auto board = open_board(dir.path());
    ASSERT_THAT(board->post(0, task_bytes("round 1")), Succeeds());
    ASSERT_THAT(reply_with(*board, 0, ticket_for("round 1"), "up"), Succeeds());
    ASSERT_THAT(board->post(1, task_bytes("round 1")), Succeeds());
    ASSERT_THAT(reply_with(*board, 1, ticket_for("round 1"), "not given yet"), Succeeds());
    EXPECT_EQ(taken(*board), "0 up");
    ASSERT_THAT(board->forget_delivered(), Succeeds());
  }
  const auto board = open_board(dir.path());
  EXPECT_EQ(spooled(dir.path()).size(), 1u);
  ASSERT_THAT(board->post(0, task_bytes("round 1")), Succeeds());
  ASSERT_THAT(board->post(1, task_bytes("round 1")), Succeeds());
  EXPECT_EQ(told(*board, 0), "task round 1");
  EXPECT_EQ(taken(*board), "1 not given yet");
}

TEST(TaskBoardRestart, AnUnacknowledgedSettleIsOfferedFirst) {
  TempDir dir;
  {
    const auto board = open_board(dir.path());
    ASSERT_THAT(board->post_settle(0, task_bytes("keep it")), Succeeds());
    ASSERT_THAT(board->post_settle(1, task_bytes("keep it")), Succeeds());
    EXPECT_EQ(told(*board, 0), "task keep it");
    ASSERT_THAT(reply_with(*board, 1, ticket_for("keep it"), "ok"), Succeeds());
  }
  const auto board = open_board(dir.path());
  ASSERT_THAT(board->post(0, task_bytes("next")), Succeeds());
  EXPECT_EQ(told(*board, 0), "task keep it");
  EXPECT_EQ(told(*board, 1), "nothing");
  ASSERT_THAT(reply_with(*board, 0, ticket_for("keep it"), "ok"), Succeeds());
  EXPECT_EQ(told(*board, 0), "task next");
}

TEST(TaskBoardRestart, ASettleOfTheRepeatedRoundReplacesTheOneThatWaits) {
  TempDir dir;
  {
    const auto board = open_board(dir.path());
    ASSERT_THAT(board->post(0, task_bytes("round 1")), Succeeds());
    ASSERT_THAT(reply_with(*board, 0, ticket_for("round 1"), "up"), Succeeds());
    ASSERT_THAT(board->post_settle(0, task_bytes("forget 1")), Succeeds());
    ASSERT_THAT(board->write(0, ticket_for("forget 1"), 0, bytes_of("o")), Succeeds());
  }
  const auto board = open_board(dir.path());
  ASSERT_THAT(board->post(0, task_bytes("round 1")), Succeeds());
  EXPECT_EQ(taken(*board), "0 up");
  ASSERT_THAT(board->post_settle(0, task_bytes("keep 1")), Succeeds());
  EXPECT_EQ(told(*board, 0), "task keep 1");
  EXPECT_THAT(reply_with(*board, 0, ticket_for("forget 1"), "ok"),
              FailsWith(Error::kNotFound, "late: another settle"));
  EXPECT_EQ(testing::get(dir.file("out/0")), "keep 1");
  EXPECT_EQ(spooled(dir.path()).size(), 2u);  // it, and the reply of round 1
}

TEST(TaskBoardRestart, APartIsResumedAtItsSize) {
  TempDir dir;
  const auto ticket = ticket_for("round 1");
  {
    const auto board = open_board(dir.path());
    ASSERT_THAT(board->post(0, task_bytes("round 1")), Succeeds());
    ASSERT_THAT(board->write(0, ticket, 0, bytes_of("the first ")), Succeeds());
  }
  {
    // Before and after the engine has come to this round again.
    const auto board = open_board(dir.path());
    EXPECT_EQ(*board->stored(0, ticket), 10);
    EXPECT_THAT(board->stored(1, ticket), FailsWith(Error::kNotFound, "not this member's task"));
    ASSERT_THAT(board->write(0, ticket, 10, bytes_of("half and ")), Succeeds());
    EXPECT_THAT(board->read(0, ticket, 0, 1), FailsWith(Error::kNotFound, "not on offer yet"));
    ASSERT_THAT(board->post(0, task_bytes("round 1")), Succeeds());
    EXPECT_EQ(*board->stored(0, ticket), 19);
    EXPECT_EQ(board->member(0).uploaded, 19);
  }
  const auto board = open_board(dir.path());
  ASSERT_THAT(reply_with(*board, 0, ticket, "the first half and the rest"), Succeeds());
  EXPECT_EQ(taken(*board), "nothing");  // nobody has asked for it yet
  ASSERT_THAT(board->post(0, task_bytes("round 1")), Succeeds());
  EXPECT_EQ(taken(*board), "0 the first half and the rest");
}

TEST(TaskBoardRestart, ATaskThatWasFetchedMayBeAnsweredBeforeItIsPostedAgain) {
  TempDir dir;
  {
    const auto board = open_board(dir.path());
    ASSERT_THAT(board->post(0, task_bytes("round 1")), Succeeds());
    ASSERT_THAT(board->post(1, task_bytes("round 1")), Succeeds());
    EXPECT_EQ(fetched(*board, 0, ticket_for("round 1")), "round 1");
  }
  const auto board = open_board(dir.path());
  EXPECT_THAT(reply_with(*board, 1, ticket_for("round 1"), "up"),
              FailsWith(Error::kNotFound, "not this member's task"));
  ASSERT_THAT(reply_with(*board, 0, ticket_for("round 1"), "up"), Succeeds());
  ASSERT_THAT(board->post(0, task_bytes("round 1")), Succeeds());
  EXPECT_EQ(taken(*board), "0 up");
}

TEST(TaskBoardRestart, ALostAcknowledgementCanBeAskedForAgain) {
  TempDir dir;
  {
    const auto board = open_board(dir.path());
    ASSERT_THAT(board->post(0, task_bytes("round 1")), Succeeds());
    ASSERT_THAT(reply_with(*board, 0, ticket_for("round 1"), "up"), Succeeds());
    ASSERT_THAT(board->post_settle(0, task_bytes("keep it")), Succeeds());
    ASSERT_THAT(reply_with(*board, 0, ticket_for("keep it"), "ok"), Succeeds());
  }
  const auto board = open_board(dir.path());
  EXPECT_EQ(*board->stored(0, ticket_for("round 1")), 2);
  EXPECT_THAT(board->complete(0, ticket_for("round 1"), 2, sha256_hex(bytes_of("up"))), Succeeds());
  EXPECT_THAT(board->complete(0, ticket_for("keep it"), 2, sha256_hex(bytes_of("ok"))), Succeeds());
  EXPECT_EQ(taken(*board), "nothing");
}

TEST(TaskBoardRestart, WhatNobodyAskedForAgainGoesWithTheNextCheckpoint) {
  TempDir dir;
  {
    const auto board = open_board(dir.path());
    for (const int64_t member : {0, 1, 2})
      ASSERT_THAT(board->post(member, task_bytes("old")), Succeeds());
    ASSERT_THAT(reply_with(*board, 0, ticket_for("old"), "up"), Succeeds());
    ASSERT_THAT(board->write(1, ticket_for("old"), 0, bytes_of("u")), Succeeds());
    ASSERT_THAT(board->write(2, ticket_for("old"), 0, bytes_of("u")), Succeeds());
    board->withdraw(2, ticket_for("old"));
  }
  const auto board = open_board(dir.path());
  EXPECT_EQ(spooled(dir.path()).size(), 2u);
  ASSERT_THAT(board->post(1, task_bytes("new")), Succeeds());
  ASSERT_THAT(board->write(1, ticket_for("new"), 0, bytes_of("n")), Succeeds());
  ASSERT_THAT(board->forget_delivered(), Succeeds());
  EXPECT_THAT(spooled(dir.path()), ElementsAre("in/1-" + ticket_for("new").substr(0, 4) + ".part"));
  EXPECT_THAT(board->stored(1, ticket_for("old")), FailsWith(Error::kNotFound, "late: its round"));
  EXPECT_EQ(*board->stored(1, ticket_for("new")), 1);
}

TEST(TaskBoardRestart, AReplyThatCannotBeReadIsAskedForAgain) {
  TempDir dir;
  {
    const auto board = open_board(dir.path());
    ASSERT_THAT(board->post(0, task_bytes("round 1")), Succeeds());
    ASSERT_THAT(reply_with(*board, 0, ticket_for("round 1"), "up"), Succeeds());
  }
  const auto board = open_board(dir.path());
  std::filesystem::remove(dir.file("in/0-" + ticket_for("round 1")));
  ASSERT_THAT(board->post(0, task_bytes("round 1")), Succeeds());
  EXPECT_EQ(told(*board, 0), "task round 1");
  // A part that somebody removes is noticed, too.
  ASSERT_THAT(board->write(0, ticket_for("round 1"), 0, bytes_of("u")), Succeeds());
  std::filesystem::remove(dir.file("in/0-" + ticket_for("round 1") + ".part"));
  EXPECT_FALSE(board->write(0, ticket_for("round 1"), 1, bytes_of("p")).ok());
  EXPECT_EQ(*board->stored(0, ticket_for("round 1")), 0);
  ASSERT_THAT(reply_with(*board, 0, ticket_for("round 1"), "up"), Succeeds());
  EXPECT_EQ(taken(*board), "0 up");
}

TEST(TaskBoardRestart, FilesOfMembersThatThereAreNotStayAlone) {
  TempDir dir;
  {
    const auto board = open_board(dir.path(), 9);
    ASSERT_THAT(board->post_settle(8, task_bytes("keep it")), Succeeds());
    ASSERT_THAT(board->post(8, task_bytes("task")), Succeeds());
    ASSERT_THAT(reply_with(*board, 8, ticket_for("task"), "up"), Succeeds());
  }
  const auto board = open_board(dir.path(), 3);
  ASSERT_THAT(board->forget_delivered(), Succeeds());
  EXPECT_EQ(spooled(dir.path()).size(), 2u);
  testing::put(dir.file("format"), "2");
  EXPECT_THAT(TaskBoard::open(dir.path(), {.members = 3}), FailsWith(Error::kInvalid, "newer"));
}

TEST(TaskBoardThreads, AllWhoPollAreToldOfATask) {
  TempDir dir;
  const auto board = open_board(dir.path());
  std::array<PollAnswer, 8> answers;
  std::vector<std::thread> pollers;
  for (auto& answer : answers)
    pollers.emplace_back([&] { answer = board->poll(0, testing::in_time()); });
  ASSERT_THAT(board->post(0, task_bytes("task")), Succeeds());
  for (auto& poller : pollers) poller.join();
  for (const auto& answer : answers) EXPECT_EQ(answer.offer.ticket, ticket_for("task"));
}

TEST(TaskBoardThreads, TheSameUploadByManyIsDeliveredOnce) {
  TempDir dir;
  const auto board = open_board(dir.path());
  ASSERT_THAT(board->post(0, task_bytes("task")), Succeeds());
  const auto ticket = ticket_for("task");
  std::atomic<int> acknowledged = 0;
  std::vector<std::thread> senders;
  for (int i = 0; i < 8; ++i)
    senders.emplace_back([&] {
      // Whoever comes second finds another offset, or an answered ticket.
      const auto sent = board->write(0, ticket, 0, bytes_of("upload"));
      if (!sent.ok() && error_of(sent) != Error::kInvalid) return;
      if (board->complete(0, ticket, 6, sha256_hex(bytes_of("upload"))).ok()) ++acknowledged;
    });
  for (auto& sender : senders) sender.join();
  EXPECT_EQ(acknowledged, 8);
  EXPECT_EQ(taken(*board), "0 upload");
  EXPECT_EQ(taken(*board), "nothing");
}

// A client: answers every task with its own number and the task's text, until the end.
void obey(TaskBoard& board, int64_t member, std::atomic<int>& failures) {
  for (int step = 0; step < 1000; ++step) {
    const auto answer = board.poll(member, testing::in_time());
    if (answer.kind == PollAnswer::Kind::kFinished) return;
    if (answer.kind != PollAnswer::Kind::kTask) break;
    const auto text = fetched(board, member, answer.offer.ticket);
    const auto status =
        reply_with(board, member, answer.offer.ticket, fmt::format("{}:{}", member, text));
    if (!status.ok() && error_of(status) != Error::kNotFound) break;
    board.member(member);
  }
  ++failures;
}

TEST(TaskBoardThreads, EightClientsPlayRoundsAndNothingIsLostOrDoubled) {
  constexpr int64_t kClients = 8;
  TempDir dir;
  const auto board = open_board(dir.path(), kClients);
  std::atomic<int> failures = 0;
  std::vector<std::thread> clients;
  for (int64_t member = 0; member < kClients; ++member)
    clients.emplace_back([&, member] { obey(*board, member, failures); });
  for (int round = 0; round < 10; ++round) {
    const auto task = fmt::format("round {}", round);
    // Nobody is waited for: whether it was answered or not, it is withdrawn.
    for (int64_t member = 0; member < kClients; ++member) {
      const auto extra = fmt::format("extra {}", round);
      EXPECT_THAT(board->post(member, task_bytes(extra)), Succeeds());
      board->withdraw(member, ticket_for(extra));
      EXPECT_THAT(board->post(member, task_bytes(task)), Succeeds());
    }
    std::vector<std::string> replies, expected;
    for (int64_t member = 0; member < kClients; ++member) {
      expected.push_back(fmt::format("{}:{}", member, task));
      const auto reply = board->next(testing::in_time());
      replies.emplace_back(reply ? text_of(*reply->bytes) : "nothing");
    }
    EXPECT_THAT(replies, UnorderedElementsAreArray(expected));
    for (int64_t member = 0; member < kClients; ++member)
      EXPECT_THAT(board->post_settle(member, task_bytes("settle " + task)), Succeeds());
    EXPECT_THAT(board->forget_delivered(), Succeeds());
  }
  board->finish();
  for (auto& client : clients) client.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(taken(*board), "nothing");
  EXPECT_THAT(board->forget_delivered(), Succeeds());
  EXPECT_THAT(spooled(dir.path()), IsEmpty());
}

}  // namespace
}  // namespace tessera

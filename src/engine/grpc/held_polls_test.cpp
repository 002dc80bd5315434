#include "engine/grpc/held_polls.hpp"

#include "engine/grpc/back_off.hpp"
#include "io/testing.hpp"
#include "net/ticket.hpp"

namespace tessera {
namespace {

using std::chrono::seconds;
using testing::FailsWith;
using testing::Succeeds;
using testing::TempDir;

struct PollScene {
  struct Told {
    Status kept;
    PollAnswer answer;
  };
  PollScene() {
    auto opened = TaskBoard::open(dir.file("spool"), {.members = 3});
    EXPECT_THAT(opened, Succeeds());
    board = *std::move(opened);
    polls = std::make_unique<HeldPolls>(*board, 2, [this] { return now; });
  }
  uint64_t hold(int64_t member) {
    return polls->hold(member, now + seconds(30), [this, member](auto& kept, auto& answer) {
      told[member].push_back({kept, answer});
    });
  }
  std::string post(int64_t member) {
    const Bytes task{1, 2, 3};
    EXPECT_THAT(board->post(member, std::make_shared<const Bytes>(task)), Succeeds());
    return ticket_of(task);
  }

  TempDir dir;
  HeldPolls::Time now{seconds(1000)};
  std::unique_ptr<TaskBoard> board;
  std::unique_ptr<HeldPolls> polls;
  std::map<int64_t, std::vector<Told>> told;
};

TEST(HeldPolls, APollIsHeldUntilThereIsATask) {
  PollScene s;
  s.hold(0), s.hold(1);
  s.polls->check();
  EXPECT_TRUE(s.told.empty());
  const auto ticket = s.post(1);
  s.polls->wake(0);
  EXPECT_TRUE(s.told.empty());
  s.polls->wake(1);
  ASSERT_EQ(s.told[1].size(), 1U);
  EXPECT_EQ(s.told[1][0].answer.kind, PollAnswer::Kind::kTask);
  EXPECT_EQ(s.told[1][0].answer.offer.ticket, ticket);
  EXPECT_EQ(s.told[1][0].answer.offer.size, 3);
  s.polls->check(), s.polls->wake(1);
  EXPECT_EQ(s.told[1].size(), 1U) << "once";
  EXPECT_EQ(s.polls->held(), 1);
  s.hold(1);
  EXPECT_EQ(s.told[1].size(), 2U) << "a task on offer is told at once";
}

TEST(HeldPolls, CheckFindsWhatNobodyHasAnnounced) {
  PollScene s;
  s.hold(0), s.hold(1);
  s.post(0);
  s.board->send_away(1, "has left");
  s.polls->check();
  EXPECT_EQ(s.told[0].at(0).answer.kind, PollAnswer::Kind::kTask);
  EXPECT_EQ(s.told[1].at(0).answer.kind, PollAnswer::Kind::kGone);
  EXPECT_EQ(s.told[1].at(0).answer.reason, "has left");
}

TEST(HeldPolls, WhoseTimeIsOverIsToldSo) {
  PollScene s;
  s.hold(0);
  s.now += seconds(29);
  s.hold(1);
  s.polls->check();
  EXPECT_TRUE(s.told.empty());
  s.now += seconds(1);
  s.polls->check();
  EXPECT_THAT(s.told[0].at(0).kept, Succeeds());
  EXPECT_EQ(s.told[0].at(0).answer.kind, PollAnswer::Kind::kNothing);
  EXPECT_TRUE(s.told[1].empty());
}

TEST(HeldPolls, ASecondPollEndsTheFirst) {
  PollScene s;
  const auto first = s.hold(0), second = s.hold(0);
  ASSERT_EQ(s.told[0].size(), 1U);
  EXPECT_THAT(s.told[0][0].kept, FailsWith(Error::kBusy, "another program polls"));
  EXPECT_FALSE(s.polls->drop(0, first));
  EXPECT_TRUE(s.polls->drop(0, second));
  s.post(0);
  s.polls->check();
  EXPECT_EQ(s.told[0].size(), 1U) << "who was dropped is told nothing";
}

TEST(HeldPolls, OnlySoManyAreHeld) {
  PollScene s;
  s.hold(0), s.hold(1), s.hold(2);
  EXPECT_TRUE(s.told[0].empty() && s.told[1].empty());
  EXPECT_EQ(s.told[2].at(0).answer.kind, PollAnswer::Kind::kNothing);
  EXPECT_EQ(s.polls->held(), 2);
}

TEST(HeldPolls, StoppingTellsEverybody) {
  PollScene s;
  s.hold(0);
  s.polls->stop();
  s.hold(1);
  for (const int64_t member : {0, 1})
    EXPECT_THAT(s.told[member].at(0).kept, FailsWith(Error::kIo, "being stopped"));
}

TEST(BackOff, TheBoundDoublesUpToTheLongestAndBeginsAnew) {
  using Time = BackOff::Time;
  BackOff back_off(Time(100), Time(700));
  EXPECT_EQ(back_off.next(0.5), Time(50));
  EXPECT_EQ(back_off.next(0.5), Time(100));
  EXPECT_EQ(back_off.next(0.5), Time(200));
  EXPECT_EQ(back_off.next(0.5), Time(350));
  EXPECT_EQ(back_off.next(0.5), Time(350));
  EXPECT_EQ(back_off.next(0), Time(0)) << "full jitter: any time below the bound";
  back_off.reset();
  EXPECT_EQ(back_off.next(0.99), Time(99));
  EXPECT_EQ(BackOff(Time(0), Time(0)).next(0.9), Time(0));
}

}  // namespace
}  // namespace tessera

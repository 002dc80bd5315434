#include "engine/grpc/grpc_engine.hpp"

#include <map>

#include "engine/grpc/testing.hpp"
#include "engine/local/local_engine.hpp"
#include "engine/testing.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using testing::eventually;
using testing::FailsWith;
using testing::LoopbackFederation;
using testing::Succeeds;
using testing::Trio;
using testing::updates;
using Replies = std::map<ClientId, Reply>;

Replies replies_of(Engine& engine, const std::vector<Task>& tasks, const Limits& limits = {}) {
  Replies out;
  engine.run(
      [&](const Post& post) {
        for (const auto& task : tasks) post(task);
      },
      limits,
      [&](Reply reply) {
        const auto client = reply.client;
        EXPECT_TRUE(out.emplace(client, std::move(reply)).second) << "two replies of " << client;
      });
  return out;
}

Limits within(int64_t time) {
  return {.deadline = std::chrono::steady_clock::now() + milliseconds(time)};
}

/// What `join` does, in a thread of the test.
class JoinedClient {
 public:
  JoinedClient(const LoopbackFederation& f, const Trio& trio, ClientId id)
      : host_(*trio.session, store, {trio.hosted()[static_cast<size_t>(id)]}) {
    auto options = f.calling_as(trio.data[static_cast<size_t>(id)].name);
    options.stop = &stop_;
    transport_ = LoopbackFederation::transport(options);
    thread_ = std::jthread([this] { work(); });
  }
  ~JoinedClient() {
    stop_ = true;
    thread_.join();
  }

  ClientStore store;

 private:
  void work() {
    for (;;) {
      const auto polled = transport_->poll();
      if (!polled.ok()) return;
      if (polled->kind != Polled::Kind::kTask) continue;
      auto bytes = transport_->fetch(polled->offer);
      if (!bytes.ok()) continue;
      const auto task = decode_task(std::make_shared<const Bytes>(*std::move(bytes)));
      if (!task.ok()) return;
      (void)transport_->deliver(polled->offer.ticket, encode_reply(host_.handle(*task)));
    }
  }

  ClientHost host_;
  std::atomic<bool> stop_ = false;
  std::unique_ptr<Transport> transport_;
  std::jthread thread_;
};

/// An engine on the board of a federation whose clients are "a", "bad" and "c".
struct EngineScene : Trio, LoopbackFederation {
  explicit EngineScene(GrpcEngineOptions options = {}) : engine(host.board(), filled(options)) {}
  GrpcEngineOptions filled(GrpcEngineOptions options) {
    options.present = [this](ClientId id) { return host.enrolled(id); };
    options.name = [this](ClientId id) { return data[static_cast<size_t>(id)].name; };
    if (!options.on_post)
      options.on_post = [this](const Task& task, const std::string&) { server->wake(task.client); };
    return options;
  }
  /// Answers the task on offer for `member` by these bytes, without a network.
  void answer(int64_t member, const Bytes& bytes) {
    auto& board = host.board();
    const auto offer = board.poll(member, std::chrono::steady_clock::now() + milliseconds(20'000));
    ASSERT_EQ(offer.kind, PollAnswer::Kind::kTask);
    EXPECT_THAT(board.write(member, offer.offer.ticket, 0, bytes), Succeeds());
    EXPECT_THAT(board.complete(member, offer.offer.ticket, std::ssize(bytes), sha256_hex(bytes)),
                Succeeds());
  }
  void answer(int64_t member, const Reply& reply) { answer(member, encode_reply(reply)); }

  GrpcEngine engine;
};

// Everything but the time that it took.
Bytes timeless(Reply reply) {
  reply.cpu_seconds = 0;
  return encode_reply(reply);
}

TEST(GrpcEngine, RepliesAreThoseOfTheLocalEngine) {
  EngineScene e;
  ClientStore store;
  ClientHost host(*e.session, store, e.hosted());
  LocalEngine local(host, {});
  std::vector<std::unique_ptr<JoinedClient>> clients;
  for (const ClientId id : {0, 1, 2}) clients.push_back(std::make_unique<JoinedClient>(e, e, id));

  auto last = e.evaluate(0, 6);
  last.global = Weights{at::tensor({-1.0F}), at::empty({0})};
  last.last = true;
  const std::vector<std::vector<Task>> runs{
      {e.train(0, 1), e.train(1, 1), e.train(2, 1)},
      {Trio::settle(0, 1, true), Trio::settle(1, 1, false), Trio::settle(2, 1, true)},
      {e.evaluate(0, 2), e.evaluate(2, 2)},
      {e.train(0, 2), e.train(1, 2), e.train(2, 2)},  // "bad" breaks in round 2
      {Trio::settle(0, 2, true), Trio::settle(1, 2, false), Trio::settle(2, 2, true)},
      {last, e.evaluate(1, 3)}};
  for (const auto& tasks : runs) {
    const auto ours = replies_of(local, tasks), theirs = replies_of(e.engine, tasks);
    ASSERT_EQ(theirs.size(), tasks.size());
    for (const auto& [client, reply] : ours) {
      EXPECT_EQ(timeless(reply), timeless(theirs.at(client))) << client;
      if (reply.kind == TaskKind::kSettle) continue;
      EXPECT_EQ(reply.wire_down, theirs.at(client).wire_down);
      EXPECT_EQ(reply.wire_up, theirs.at(client).wire_up);
    }
  }
  ASSERT_TRUE(eventually([&] { return !e.host.board().member(2).settle_waits; }));
  for (const ClientId id : {0, 1, 2})
    EXPECT_EQ(updates(clients[static_cast<size_t>(id)]->store, id), updates(store, id));
}

TEST(GrpcEngine, HelloIsAnsweredByTheNameAlone) {
  EngineScene e;
  const auto replies = replies_of(e.engine, {{.client = 1}});
  ASSERT_TRUE(replies.at(1).hello);
  EXPECT_EQ(replies.at(1).hello->name, "bad");
}

TEST(GrpcEngine, WhoIsNotThereIsNotWaitedFor) {
  EngineScene e;
  e.host.forget_enrolled(1);
  const auto replies = replies_of(e.engine, {e.train(1, 1)});
  EXPECT_THAT(replies.at(1).status, FailsWith(Error::kNotFound, "has never enrolled"));
  EXPECT_EQ(replies.at(1).wire_down, 0);
}

TEST(GrpcEngine, WhoLeavesMeanwhileIsNotWaitedForEither) {
  EngineScene e;
  Replies replies;
  std::jthread running([&] { replies = replies_of(e.engine, {e.train(0, 1)}); });
  ASSERT_TRUE(eventually([&] { return e.host.board().member(0).offered; }));
  EXPECT_THAT(e.host.leave(0), Succeeds());
  running.join();
  EXPECT_THAT(replies.at(0).status, FailsWith(Error::kNotFound, "has left or was sent away"));
}

TEST(GrpcEngine, TooLateIsTakenBack) {
  EngineScene e;
  const auto bytes = encode_task(e.train(0, 1));
  const auto replies = replies_of(e.engine, {e.train(0, 1)}, within(50));
  EXPECT_THAT(replies.at(0).status, FailsWith(Error::kBusy, "no answer in time"));
  EXPECT_EQ(replies.at(0).wire_down, 0) << "nobody has fetched it";
  EXPECT_THAT(e.host.board().stored(0, ticket_of(bytes)), FailsWith(Error::kNotFound, "late"));
  EXPECT_THAT(replies_of(e.engine, {e.train(0, 1)}, within(-1)).at(0).status,
              FailsWith(Error::kBusy, "no answer in time"));
}

TEST(GrpcEngine, WhatWasFetchedInVainWasSentAllTheSame) {
  EngineScene e;
  Replies replies;
  std::jthread running([&] {
    replies = replies_of(e.engine, {e.train(0, 1), e.train(1, 1), e.train(2, 1)},
                         {.deadline = std::nullopt, .enough = 1});
  });
  ASSERT_TRUE(eventually([&] { return e.host.board().member(0).offered; }));
  ASSERT_THAT(e.transport("a")->fetch(e.host.board().poll(0, {}).offer), Succeeds());
  e.answer(2, refused(e.train(2, 1), ok()));
  running.join();
  EXPECT_EQ(replies.at(0).wire_down, encoded_size(e.down));
  EXPECT_EQ(replies.at(1).wire_down, 0);
  EXPECT_EQ(replies.at(2).wire_down, encoded_size(e.down));
}

TEST(GrpcEngine, PatienceStandsInForADeadline) {
  EngineScene e({.patience = milliseconds(50)});
  EXPECT_THAT(replies_of(e.engine, {e.train(0, 1)}).at(0).status,
              FailsWith(Error::kBusy, "no answer in time"));
}

TEST(GrpcEngine, OnceEnoughHaveAnsweredTheOthersAreNotNeeded) {
  EngineScene e;
  const JoinedClient first(e, e, 0), last(e, e, 2);
  const auto replies = replies_of(e.engine, {e.train(0, 1), e.train(1, 1), e.train(2, 1)},
                                  {.deadline = std::nullopt, .enough = 2});
  EXPECT_THAT(replies.at(0).status, Succeeds());
  EXPECT_THAT(replies.at(1).status, FailsWith(Error::kBusy, "not needed"));
  EXPECT_THAT(replies.at(2).status, Succeeds());
  EXPECT_FALSE(e.host.board().member(1).offered);
}

TEST(GrpcEngine, ALieCostsTheLiarsUploadOnly) {
  EngineScene e;
  const auto task = e.train(0, 1);
  Reply honest = refused(task, ok());
  honest.up = {{"seen", at::ones({1})}};
  const auto changed = [&](const std::function<void(Reply&)>& change) {
    auto out = honest;
    change(out);
    return encode_reply(out);
  };
  auto broken = encode_reply(honest);
  broken.resize(broken.size() - 1);
  Bytes huge_header(16, 0);
  huge_header[6] = 0x7F;  // a header of 35,747,322,042,253,312 bytes
  struct Case {
    const char* what;
    Bytes bytes;
    Error kind;
    const char* says;
  };
  const std::vector<Case> cases{
      {"garbage", {1, 2, 3}, Error::kInvalid, ""},
      {"cut short", broken, Error::kInvalid, "reply"},
      {"a huge header", huge_header, Error::kInvalid, ""},
      {"another client", changed([](Reply& r) { r.client = 2; }), Error::kInvalid, "of client 2"},
      {"a replay", changed([](Reply& r) { r.round = 0; }), Error::kInvalid, "round 0"},
      {"another attempt", changed([](Reply& r) { r.attempt = 7; }), Error::kInvalid, "attempt 7"},
      {"another kind", changed([](Reply& r) { r.kind = TaskKind::kJoin; }), Error::kInvalid,
       "join"},
      {"its own stop", changed([](Reply& r) { r.status = fail(Error::kInterrupted, "stopped"); }),
       Error::kBusy, "stopped"},
      {"its own failure", changed([](Reply& r) { r.status = fail(Error::kInternal, "it\nbroke"); }),
       Error::kInternal, "it?broke"}};
  for (const auto& [what, bytes, kind, says] : cases) {
    Replies replies;
    std::jthread running([&] { replies = replies_of(e.engine, {task, e.train(2, 1)}); });
    Reply other = refused(e.train(2, 1), ok());
    e.answer(0, bytes);
    e.answer(2, other);
    running.join();
    EXPECT_THAT(replies.at(0).status, FailsWith(kind, says)) << what;
    EXPECT_TRUE(replies.at(0).up.empty());
    EXPECT_EQ(replies.at(0).round, 1) << what;
    EXPECT_THAT(replies.at(2).status, Succeeds()) << what;
    EXPECT_THAT(e.host.board().forget_delivered(), Succeeds());
  }
}

TEST(GrpcEngine, AStopLeavesWhatHasArrivedForTheNextProcess) {
  const testing::TempDir dir;
  const Trio trio;
  std::atomic<bool> stop = false;
  const auto options = [&] {
    return GrpcEngineOptions{.present = [](ClientId) { return true; },
                             .name = [](ClientId) { return "x"; },
                             .stop = &stop};
  };
  const std::vector<Task> tasks{trio.train(0, 1), trio.train(2, 1)};
  const auto reply = encode_reply(refused(tasks[1], ok()));
  {
    auto board = *TaskBoard::open(dir.file("spool"), {.members = 3});
    GrpcEngine engine(*board, options());
    Replies replies;
    std::jthread running([&] { replies = replies_of(engine, tasks); });
    ASSERT_TRUE(eventually([&] { return board->member(0).offered && board->member(2).offered; }));
    stop = true;
    running.join();
    for (const ClientId id : {0, 2})
      EXPECT_THAT(replies.at(id).status, FailsWith(Error::kInterrupted, "stopped"));
    // The server is on its way out and still takes what comes.
    const auto ticket = ticket_of(encode_task(tasks[1]));
    EXPECT_THAT(board->write(2, ticket, 0, reply), Succeeds());
    EXPECT_THAT(board->complete(2, ticket, std::ssize(reply), sha256_hex(reply)), Succeeds());
    EXPECT_THAT(replies_of(engine, {trio.train(1, 1)}).at(1).status,
                FailsWith(Error::kInterrupted, "stopped"));
  }
  stop = false;
  auto board = *TaskBoard::open(dir.file("spool"), {.members = 3});
  GrpcEngine engine(*board, options());
  const auto replies = replies_of(engine, tasks, within(300));
  EXPECT_THAT(replies.at(0).status, FailsWith(Error::kBusy, "no answer in time"));
  EXPECT_THAT(replies.at(2).status, Succeeds()) << "from the spool";
}

TEST(GrpcEngine, WhatAskThrowsTakesEverythingBack) {
  EngineScene e;
  EXPECT_THROW(e.engine.run(
                   [&](const Post& post) {
                     post(e.train(0, 1));
                     throw std::runtime_error("no more");
                   },
                   {}, [](const Reply&) {}),
               std::runtime_error);
  EXPECT_FALSE(e.host.board().member(0).offered);
  const JoinedClient client(e, e, 0);
  EXPECT_THAT(replies_of(e.engine, {e.train(0, 2)}).at(0).status, Succeeds());
}

TEST(GrpcEngine, PostingWaitsWhileTheBoardIsFull) {
  int64_t most = 0;
  TaskBoard* board = nullptr;
  EngineScene e({.on_post =
                     [&](const Task&, const std::string&) {
                       int64_t offered = 0;
                       for (const int64_t id : {0, 1, 2}) offered += board->member(id).offered;
                       most = std::max(most, offered);
                     },
                 .memory = 1});
  board = &e.host.board();
  const JoinedClient a(e, e, 0), b(e, e, 1), c(e, e, 2);
  const auto replies = replies_of(e.engine, {e.train(0, 1), e.train(1, 1), e.train(2, 1)});
  EXPECT_EQ(replies.size(), 3U);
  EXPECT_EQ(most, 1) << "one that is larger than all memory is posted alone";
}

TEST(GrpcEngine, TicketsAreToldBeforeAnybodyCanFetchTheirTask) {
  std::map<std::string, ClientId> told, posted;
  TaskBoard* board = nullptr;
  EngineScene e({.before_post =
                     [&](const Task& task, const std::string& ticket) {
                       EXPECT_FALSE(board->member(task.client).offered);
                       EXPECT_TRUE(told.emplace(ticket, task.client).second);
                     },
                 .on_post =
                     [&](const Task& task, const std::string& ticket) {
                       EXPECT_EQ(board->poll(task.client, {}).offer.ticket, ticket);
                       EXPECT_TRUE(posted.emplace(ticket, task.client).second);
                     }});
  board = &e.host.board();
  const auto settled = replies_of(
      e.engine, {Trio::settle(0, 1, true), Trio::settle(1, 1, false), Trio::settle(2, 1, true)});
  for (const ClientId id : {0, 1, 2}) {
    EXPECT_THAT(settled.at(id).status, Succeeds());
    EXPECT_TRUE(board->member(id).settle_waits);
  }
  EXPECT_EQ(told.size(), 3U);
  EXPECT_EQ(told, posted);
}

TEST(GrpcEngine, ASettleReachesTheClientBeforeItsNextTask) {
  EngineScene e;
  const auto settled = replies_of(e.engine, {Trio::settle(0, 1, true)});
  EXPECT_THAT(settled.at(0).status, Succeeds()) << "at once, though nobody is there";
  EXPECT_TRUE(e.host.board().member(0).settle_waits);
  const JoinedClient client(e, e, 0);
  EXPECT_THAT(replies_of(e.engine, {e.train(0, 2)}).at(0).status, Succeeds());
  EXPECT_FALSE(e.host.board().member(0).settle_waits);
}

}  // namespace
}  // namespace tessera

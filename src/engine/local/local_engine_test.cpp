#include "engine/local/local_engine.hpp"

#include <map>
#include <thread>

#include "engine/testing.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::Counting;
using testing::FailsWith;
using testing::Succeeds;
using testing::Trio;
using testing::updates;

struct Engines : Trio {
  explicit Engines(LocalEngineOptions options = {}, Counting counting = {})
      : Trio(counting), host(*session, store, hosted()), engine(host, std::move(options)) {}
  /// Replies by client; each exactly once.
  std::map<ClientId, Reply> run(const std::vector<Task>& tasks, Deadline deadline = std::nullopt) {
    std::map<ClientId, Reply> out;
    engine.run(
        [&](const Post& post) {
          for (const auto& task : tasks) post(task);
        },
        {deadline},
        [&](Reply reply) {
          const auto client = reply.client;
          EXPECT_TRUE(out.emplace(client, std::move(reply)).second) << "two replies of " << client;
        });
    return out;
  }
  ClientStore store;
  ClientHost host;
  LocalEngine engine;
};

TEST(LocalEngine, EveryTaskIsAnsweredOnceOnAnyNumberOfThreads) {
  for (const int threads : {1, 2, 5}) {
    Engines e({.threads = threads});
    const auto caller = std::this_thread::get_id();
    int replies = 0;
    e.engine.run(
        [&](const Post& post) {
          for (const ClientId id : {2, 0, 1}) post(e.train(id, 1));
        },
        Limits{},
        [&](const Reply& reply) {
          ++replies;
          EXPECT_EQ(std::this_thread::get_id(), caller);
          EXPECT_EQ(reply.up.at("seen").item<float>(), static_cast<float>(2 + 100 * reply.client));
        });
    EXPECT_EQ(replies, 3);
  }
}

TEST(LocalEngine, RepliesArriveWhileTasksAreStillPosted) {
  for (const int threads : {1, 2}) {
    Engines e({.threads = threads});
    int posted = 0, answered = 0, most = 0;
    e.engine.run(
        [&](const Post& post) {
          for (int i = 0; i < 200; ++i) {
            post(Trio::settle(i % 3, i, true));
            most = std::max(most, ++posted - answered);
          }
        },
        Limits{}, [&](const Reply&) { ++answered; });
    EXPECT_EQ(answered, 200);
    EXPECT_LE(most, 3 * threads + 1) << "downloads under way must stay few";
  }
}

// Mostly for the thread sanitizer: many clients at once, and nothing of one reaches another.
TEST(LocalEngine, ManyClientsAtOnceKeepTheirStatesApart) {
  constexpr ClientId kClients = 40;
  constexpr int64_t kRounds = 25;
  std::atomic<int> steps = 0;
  Trio trio({&steps});
  Session session({.model = std::make_shared<testing::Fixed>(),
                   .method = erase(Counting{&steps}),
                   .info = {.name = "counting"},
                   .seed = 9,
                   .clients = kClients,
                   .rounds = kRounds});
  ClientStore store;
  std::vector<HostedClient> clients;
  for (ClientId id = 0; id < kClients; ++id) clients.push_back({id, &trio.data[0], nullptr});
  ClientHost host(session, store, clients);
  LocalEngine engine(host, {.threads = 4});
  const auto everybody = [&](const std::function<Task(ClientId)>& task) {
    engine.run(
        [&](const Post& post) {
          for (ClientId id = 0; id < kClients; ++id) post(task(id));
        },
        Limits{}, [](const Reply& reply) { EXPECT_THAT(reply.status, Succeeds()); });
  };
  for (int64_t round = 1; round <= kRounds; ++round) {
    everybody([&](ClientId id) {
      auto task = trio.evaluate(id, round);
      task.keep_step = true;
      return task;
    });
    everybody([&](ClientId id) { return trio.train(id, round); });
    everybody([&](ClientId id) { return Trio::settle(id, round, true); });
  }
  for (ClientId id = 0; id < kClients; ++id) EXPECT_EQ(updates(store, id), 100 * id + kRounds);
  EXPECT_EQ(steps, kClients * kRounds) << "an evaluation's step serves the round";
}

TEST(LocalEngine, AnExceptionOfAMethodIsOneBadReply) {
  Engines e({.threads = 2});
  const auto replies = e.run({e.train(0, 2), e.train(1, 2), e.train(2, 2)});
  EXPECT_THAT(replies.at(0).status, Succeeds());
  EXPECT_THAT(replies.at(1).status,
              FailsWith(Error::kInternal, "round 2, train, client bad: it broke"));
  EXPECT_THAT(replies.at(2).status, Succeeds());
}

TEST(LocalEngine, WhatAskThrowsIsThrownOnceNothingIsUnderWay) {
  for (const int threads : {1, 3}) {
    std::atomic<int> steps = 0;
    Engines e({.threads = threads}, {&steps});
    EXPECT_THROW(e.engine.run(
                     [&](const Post& post) {
                       post(e.train(0, 1));
                       throw std::runtime_error("no more");
                     },
                     Limits{}, [](const Reply&) {}),
                 std::runtime_error);
    const int done = steps;
    EXPECT_LE(done, 1);
    EXPECT_EQ(e.run({e.train(1, 1)}).size(), 1U) << "the engine can be used again";
  }
}

TEST(LocalEngine, AStopSkipsWhatHasNotBegunButSettles) {
  std::atomic<bool> stop{false};
  int calls = 0;
  Engines e({.stop = &stop, .on_client = [&] { stop = ++calls == 2; }});
  const auto replies = e.run({e.train(0, 1), e.train(1, 1), e.train(2, 1)});
  EXPECT_THAT(replies.at(0).status, Succeeds());
  EXPECT_THAT(replies.at(1).status, Succeeds());
  EXPECT_THAT(replies.at(2).status, FailsWith(Error::kInterrupted, "stopped"));
  EXPECT_EQ(calls, 2);
  EXPECT_THAT(e.run({Trio::settle(0, 1, true)}).at(0).status, Succeeds());
  EXPECT_EQ(updates(e.store, 0), 1);
}

TEST(LocalEngine, WhatHasNotBegunByTheDeadlineIsLate) {
  Engines e({.threads = 2});
  const auto past = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  const auto replies = e.run({e.train(0, 1), e.train(2, 1)}, past);
  ASSERT_EQ(replies.size(), 2U);
  for (const auto& [client, reply] : replies)
    EXPECT_THAT(reply.status, FailsWith(Error::kBusy, "no answer in time"));
  EXPECT_THAT(e.run({Trio::settle(0, 1, false)}, past).at(0).status, Succeeds());
  const auto later = std::chrono::steady_clock::now() + std::chrono::hours(1);
  EXPECT_THAT(e.run({e.train(0, 1)}, later).at(0).status, Succeeds());
}

TEST(LocalEngine, TheWireChangesNoBitAndIsCountedEitherWay) {
  Engines direct, wired({.through_wire = true});
  const std::vector<Task> tasks{direct.train(0, 1), direct.train(2, 1)};
  const auto a = direct.run(tasks), b = wired.run(tasks);
  for (const ClientId id : {0, 2}) {
    EXPECT_EQ(encode(a.at(id).up), encode(b.at(id).up));
    EXPECT_EQ(a.at(id).wire_up, static_cast<int64_t>(encode(a.at(id).up).size()));
    EXPECT_EQ(a.at(id).wire_down, static_cast<int64_t>(encode(direct.down).size()));
    EXPECT_EQ(a.at(id).wire_up, b.at(id).wire_up);
    EXPECT_EQ(a.at(id).wire_down, b.at(id).wire_down);
  }
  auto task = direct.evaluate(0, 1);
  task.global = Weights{at::tensor({-1.0F}), at::empty({0})};
  const auto x = *direct.run({task}).at(0).evaluation, y = *wired.run({task}).at(0).evaluation;
  EXPECT_EQ(x.post_test.loss, y.post_test.loss);
  EXPECT_EQ(x.global_test->loss, y.global_test->loss);
  EXPECT_THAT(wired.run({wired.train(1, 2)}).at(1).status, FailsWith(Error::kInternal, "it broke"));
}

}  // namespace
}  // namespace tessera

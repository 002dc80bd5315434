#include "engine/mpi/mpi_engine.hpp"

#include <gmock/gmock.h>

#include <map>
#include <thread>

#include "engine/mpi/rank_server.hpp"
#include "engine/mpi/testing.hpp"
#include "engine/testing.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

using testing::Counting;
using testing::PostOffice;
using testing::ThreadWorld;
using testing::Trio;
using testing::updates;

/// Uploads its download plus its id, with weight id + 1; so it is summed.
struct Adding {
  struct Server {
    Weights g;
    static void fields(auto& m, auto&& f) { f("g", m.g); }
  };
  struct Client {
    static void fields(auto&, auto&&) {}
  };
  using Down = Weights;
  using Up = Mean<Trained<Weights>>;
  Server init_server(const Setup& setup) const { return {setup.model.init(setup.key)}; }
  Client init_client(const Local&) const { return {}; }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    for (const auto& ask : asks) send(ask, server.g);
  }
  Step<Client, Up> local_update(const Client&, const Down& down, const Local& local) const {
    const double add = local.client == 1 && local.round == 2 ? NAN : double(local.client);
    return {{},
            {Weights{down.w + add, down.b}, static_cast<double>(local.client + 1)},
            0.5,
            down,
            Weights{-down.w, down.b}};
  }
  Up expected(const Server& server, Why, const Setup&) const { return {server.g, 0}; }
  Server aggregate(Server server, const Sum<Up>&, const Setup&) const { return server; }
};

/// The trio on two ranks, the second a thread: client 0 here, 1 and 2 there.
struct TwoRanks : Trio {
  explicit TwoRanks(std::unique_ptr<AnyMethod> method = nullptr)
      : office(2), world(office, 0), desk(world, &stop) {
    if (method)
      session = std::make_unique<Session>(SessionParts{.model = std::make_shared<testing::Fixed>(),
                                                       .method = std::move(method),
                                                       .info = {.name = "adding"},
                                                       .seed = 9,
                                                       .clients = 3,
                                                       .rounds = 5});
    placement.emplace(2, 3, 0);
    host.emplace(*session, store, std::vector<HostedClient>{{0, &data[0], nullptr}});
    local.emplace(*host, LocalEngineOptions{.stop = &stop});
    engine.emplace(desk, *placement, *local, LocalEngineOptions{.stop = &stop},
                   [this](ClientId client, const std::string& name, const Bytes& bytes) {
                     files.push_back(fmt::format("{} {} {}", client, name, text_of(bytes)));
                     return ok();
                   });
    other = std::jthread([this] { serve(); });
    desk.meet();
  }
  ~TwoRanks() {
    EXPECT_TRUE(desk.end(7));
    other.join();
    EXPECT_EQ(code, 7);
  }
  void serve() {
    ThreadWorld there(office, 1);
    RankSeat seat(there, nullptr, 2);
    ClientHost far(*session, far_store, {{1, &data[1], nullptr}, {2, &data[2], nullptr}},
                   [&](const ShownModel& shown) {
                     const auto text = bytes_of("model");
                     server->add_file(shown.client, "m", Bytes(text.begin(), text.end()));
                     return ok();
                   });
    std::atomic<bool> far_stop{false};
    LocalEngine far_engine(far, {.stop = &far_stop});
    RankServer here(seat, *session, far_engine, placement->clients_of(1), 2);
    here.on_stop = [&] { far_stop = true; };
    here.on_order = [](const RankLetter& letter) {
      if (letter.kind() == "fail")
        return nlohmann::json{{"kind", "done"},
                              {"status", status_json(fail(Error::kIo, "no disk"))}};
      return nlohmann::json{{"kind", "done"}, {"twice", 2 * letter.head.at("number").get<int>()}};
    };
    server = &here;
    code = here.serve();
  }
  std::map<ClientId, Reply> run(const std::vector<Task>& tasks, Limits limits = {}) {
    std::map<ClientId, Reply> out;
    engine->run(
        [&](const Post& post) {
          for (const auto& task : tasks) post(task);
        },
        limits, [&](Reply reply) { out.emplace(reply.client, std::move(reply)); });
    EXPECT_EQ(out.size(), tasks.size());
    return out;
  }

  std::atomic<bool> stop{false};
  PostOffice office;
  ThreadWorld world;
  RankDesk desk;
  std::optional<Placement> placement;
  ClientStore store, far_store;
  std::optional<ClientHost> host;
  std::optional<LocalEngine> local;
  std::optional<MpiEngine> engine;
  std::vector<std::string> files;
  RankServer* server = nullptr;
  int code = -1;
  std::jthread other;
};

TEST(MpiEngine, TasksGoWhereTheClientIsAndStatesStayThere) {
  TwoRanks ranks;
  const auto replies = ranks.run({ranks.train(0, 1), ranks.train(1, 1), ranks.train(2, 1)});
  for (const ClientId id : {0, 1, 2}) {
    EXPECT_EQ(replies.at(id).up.at("seen").item<float>(), static_cast<float>(2 + 100 * id));
    EXPECT_EQ(replies.at(id).wire_up, encoded_size(replies.at(id).up));
    EXPECT_EQ(replies.at(id).wire_down, encoded_size(ranks.down));
  }
  ranks.run({Trio::settle(0, 1, true), Trio::settle(1, 1, true), Trio::settle(2, 1, false)});
  EXPECT_EQ(ranks.store.ids(), std::vector<ClientId>{0});
  EXPECT_EQ(ranks.far_store.ids(), std::vector<ClientId>{1});
  EXPECT_EQ(updates(ranks.far_store, 1), 101);
  const auto broke = ranks.run({ranks.train(1, 2), ranks.train(2, 2)});
  EXPECT_THAT(message(broke.at(1).status), ::testing::HasSubstr("client bad: it broke"));
  EXPECT_TRUE(broke.at(2).status.ok());
}

// The same download travels once to a rank, however many of its clients are asked, and again in the
// next run: it may have been changed in place.
TEST(MpiEngine, ADownloadOfManyTravelsOnce) {
  TwoRanks ranks;
  ranks.down = pack(Weights{at::full({1}, 2.0F), at::zeros({25000})});
  const auto sent = [&](const std::vector<Task>& tasks) {
    const auto before = ranks.world.sent_bytes();
    ranks.run(tasks);
    return ranks.world.sent_bytes() - before;
  };
  const auto one = sent({ranks.train(1, 1)});
  const auto two = sent({ranks.train(1, 1, 2), ranks.train(2, 1, 2)});
  EXPECT_GT(one, 100000);
  EXPECT_LT(two - one, 1000);
  ranks.down["b"].fill_(1);
  ranks.down["w"].fill_(5);
  const auto replies = ranks.run({ranks.train(1, 1, 3), ranks.train(2, 1, 3)});
  EXPECT_EQ(replies.at(2).up.at("seen").item<float>(), 205);
}

TEST(MpiEngine, UploadsAreSummedWhereTheyAre) {
  TwoRanks ranks(erase(Adding{}));
  const Addends addends{pack(Weighted{{at::zeros({1}), at::empty({0})}, 1}),
                        erase(Adding{})->parts()};
  TrieSum sum({0, 1, 2}, addends);
  const auto mean = [&] { return unpack<Weighted>(sum.result().value()); };
  SumOrder order{.asked = {0, 1, 2}, .expected = addends.form, .on_part = [&](TriePart part) {
                   sum.add(std::move(part));
                 }};
  const auto play = [&](int64_t round) {
    return ranks.run({ranks.train(0, round), ranks.train(1, round), ranks.train(2, round)},
                     {.sum = &order});
  };
  const auto replies = play(1);
  EXPECT_FALSE(replies.at(0).summed);  // of rank 0 itself: the caller adds it
  EXPECT_EQ(replies.at(1).summed, 4);  // a float32; weights are no payload
  EXPECT_TRUE(replies.at(2).up.empty());
  EXPECT_EQ(replies.at(2).wire_up, replies.at(0).wire_up);
  sum.add(0, replies.at(0).up);
  EXPECT_EQ(static_cast<double>(mean().weight), 1 + 2 + 3);
  EXPECT_EQ(mean().value.w.item<float>(), (1 * 2 + 2 * 3 + 3 * 4) / 6.0F);

  sum = TrieSum({0, 1, 2}, addends);  // one that diverged is left out, and says so
  const auto again = play(2);
  EXPECT_EQ(message(again.at(1).status), "'value.w' is not finite");
  EXPECT_TRUE(again.at(1).summed.has_value());
  sum.add(0, again.at(0).up);
  EXPECT_EQ(mean().value.w.item<float>(), (1 * 2 + 3 * 4) / 4.0F);
}

TEST(MpiEngine, FilesComeBeforeTheReplyAndWhatIsThrownWaits) {
  TwoRanks ranks;
  auto task = ranks.evaluate(2, 6);
  task.last = true, task.global = Weights{at::tensor({-1.0F}), at::empty({0})};
  const auto replies = ranks.run({ranks.evaluate(0, 1), task});
  EXPECT_TRUE(replies.at(2).evaluation->global_test.has_value());
  EXPECT_EQ(ranks.files, (std::vector<std::string>{"2 m model", "2 m model"}));  // two views
  EXPECT_THROW(ranks.engine->run(
                   [&](const Post& post) {
                     post(ranks.train(1, 1));
                     throw std::runtime_error("no more");
                   },
                   Limits{}, [](const Reply&) {}),
               std::runtime_error);
  EXPECT_EQ(ranks.run({ranks.train(1, 1, 2)}).size(), 1U);
}

TEST(MpiEngine, AStopReachesEveryRank) {
  TwoRanks ranks;
  ranks.stop = true;
  for (const auto& [client, reply] : ranks.run({ranks.train(0, 1)}))
    EXPECT_EQ(error_of(reply.status), Error::kInterrupted);
  const auto far = ranks.run({ranks.train(2, 1)});
  EXPECT_EQ(error_of(far.at(2).status), Error::kInterrupted);
  EXPECT_TRUE(ranks.run({Trio::settle(2, 1, false)}).at(2).status.ok());
}

TEST(MpiEngine, OrdersAreAnsweredAndErrorsNameTheRank) {
  TwoRanks ranks;
  const auto answers = ranks.desk.ask_all({{"kind", "double"}, {"number", 21}}, "done");
  EXPECT_EQ(answers[1].head.at("twice"), 42);
  try {
    ranks.desk.ask_all({{"kind", "fail"}}, "done");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const RankLost& lost) {
    EXPECT_THAT(message(lost.status), ::testing::MatchesRegex("rank 1 \\(.*\\): no disk"));
    EXPECT_FALSE(lost.dead);
  }
}

}  // namespace
}  // namespace tessera

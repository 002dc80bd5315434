// Many clients: neither memory nor kills change a number, and nothing is kept that nobody asked
// for.
#include <ATen/ATen.h>

#include <cmath>

#include "io/sqlite.hpp"
#include "run/checkpoint.hpp"
#include "run/simulation.hpp"
#include "run/testing.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::outcome;
using testing::Succeeds;

class LargeRuns : public testing::Runs {
 protected:
  // 1,010 numbers of a head: 4 kB a client, so that 0.001 GiB (a third of it for states) holds 88.
  static Experiment many(std::vector<std::string> more = {}, const std::string& method = "fedper") {
    const auto text = fmt::format(
        "name = \"many\"\nseed = 3\nrounds = 6\n"
        "[data]\nset = \"synthetic\"\npartition = \"natural\"\nclients = 300\nfeatures = 6\n"
        "least = 6\nmost = 40\n"
        "[model]\nname = \"mlp100\"\n"
        "[train]\nbatch = 8\nlr = 0.1\n"
        "[federation]\nparticipation = 0.5\neval_every = 3\neval_clients = 40\n"
        "[method]\nname = \"{}\"\n",
        method);
    auto parsed = parse_experiment(text, "many.toml", {.sets = std::move(more)});
    EXPECT_THAT(parsed, Succeeds());
    return *parsed;
  }
};

TEST_F(LargeRuns, TheBudgetChangesNoNumber) {
  for (const char* method : {"fedper", "ditto"}) {
    const auto name = std::string(method);
    const auto roomy = run(many({}, method), name + "-roomy");
    const auto tight = run(many({"run.memory=0.001"}, method), name + "-tight");
    EXPECT_EQ(outcome(out(name + "-roomy"), roomy), outcome(out(name + "-tight"), tight));
    EXPECT_EQ(testing::get(out(name + "-roomy") + "/config.toml"),
              testing::get(out(name + "-tight") + "/config.toml"));
  }
}

TEST_F(LargeRuns, StatesBeyondTheBudgetAreOnTheDisk) {
  const auto experiment = many();
  const auto federation = load_federation(experiment.data, 5);
  ASSERT_THAT(federation, Succeeds());
  auto session = make_session(experiment, *federation);
  ASSERT_THAT(session, Succeeds());
  SimulationOptions options;
  options.states = {50 * 4 * 1010, dir_.path()};
  Simulation simulation(*std::move(session), *federation, experiment.federation, options);
  ASSERT_THAT(simulation.driver().begin(), Succeeds());
  ASSERT_THAT(simulation.driver().play(1), Succeeds());
  EXPECT_EQ(simulation.store().ids().size(), 150U);
  EXPECT_EQ(simulation.store().on_disk(), 100);
}

TEST_F(LargeRuns, InterruptedThreeTimesWithLittleMemoryIsOneRun) {
  const auto whole = run(many(), "whole");
  const auto tight = many({"run.memory=0.001"});
  begin(tight, "cut", 1);
  for (const int64_t rounds : {3, 5}) {
    std::atomic<bool> stop{false};
    const auto ended = run_experiment(
        tight, {.out = out("cut"),
                .resume = true,
                .on_progress = [&](const Progress& p) { stop = stop || p.round >= rounds; },
                .stop = &stop});
    ASSERT_THAT(ended, FailsWith(Error::kInterrupted, "--resume"));
  }
  // Another budget may go on with it.
  const auto cut = run(many({"run.memory=1.0"}), RunRequest{.out = out("cut"), .resume = true});
  EXPECT_EQ(outcome(out("cut"), cut), outcome(out("whole"), whole));
}

TEST_F(LargeRuns, ModelsOfManyClientsAreSavedWhenAskedFor) {
  const auto models = [&](const std::string& name) {
    return std::distance(fs::directory_iterator(out(name) + "/models"), fs::directory_iterator());
  };
  const std::vector<std::string> more{"data.clients=1001", "federation.participation=0.01",
                                      "rounds=1"};
  const auto with = [&](const std::string& set) {
    auto sets = more;
    sets.push_back(set);
    return many(sets, "fedavg");
  };
  run(with("output.clients=auto"), "auto");
  EXPECT_EQ(models("auto"), 1) << "the global one";
  run(with("output.clients=all"), "all");
  EXPECT_EQ(models("all"), 41) << "and those of the evaluated";
  run(many({"rounds=1"}, "fedavg"), "few");
  EXPECT_EQ(models("few"), 41);
  run(many({"rounds=1", "output.clients=none"}, "fedavg"), "none");
  EXPECT_EQ(models("none"), 1);
  EXPECT_THAT(with("output.clients=auto").toml(), ::testing::Not(HasSubstr("clients = \"auto\"")));
}

TEST_F(LargeRuns, ClassesAreCountedOfAThousandClients) {
  const auto labels = [&](const std::string& name) {
    auto database = Database::open(out(name) + "/history.sqlite", Database::Mode::kReadOnly);
    auto rows = database->prepare("SELECT coalesce(sum(n), 0) FROM labels");
    EXPECT_TRUE(*rows->step());
    return rows->integer(0);
  };
  run(many({"rounds=1"}), "few");
  int64_t samples = 0;
  for (const auto& client : load_federation(many().data, derive(3, Purpose::kPartition))->clients)
    samples += client.size(Part::kTrain) + client.size(Part::kVal) + client.size(Part::kTest);
  EXPECT_EQ(labels("few"), samples);
  run(many({"rounds=1", "data.clients=1001", "federation.participation=0.01"}), "more");
  EXPECT_EQ(labels("more"), 0);
}

// FedACS keeps a model of everybody: 4 d N bytes; and compares every two.
TEST_F(LargeRuns, AServerThatCannotFitIsRefusedInOneSentence) {
  const auto experiment = many({}, "fedacs");
  const auto federation = *load_federation(experiment.data, 5);
  const auto session = *make_session(experiment, federation);
  const auto setup = session.server_setup(0, nullptr);
  const double d = 6 * 100 + 100 + 100 * 10 + 10;
  const auto memory = server_memory(session.method(), setup, 1e9);
  EXPECT_DOUBLE_EQ(memory.bytes, 300 * 4 * d) << "a model of everybody";
  EXPECT_GT(memory.most, 300);
  EXPECT_LE(memory.most, static_cast<int64_t>(1e9 / (4 * d))) << "pairs may end it earlier";
  EXPECT_THAT(check_server_memory("fedacs", memory), Succeeds());
  const auto refused = check_server_memory("fedacs", server_memory(session.method(), setup, 1e6));
  EXPECT_THAT(refused, FailsWith(Error::kInvalid, "2.05 MB for 300 clients"));
  EXPECT_EQ(server_memory(make_session(many(), federation)->method(), setup, 1e9).bytes, 0);
  const auto huge = many({"data.clients=10000000"}, "fedacs");
  EXPECT_THAT(
      make_session(huge, SessionFacts{.sample_shape = {6}, .classes = 10, .clients = 10'000'000}),
      FailsWith(Error::kInvalid, "fedacs: the server compares every two clients"));
}

TEST_F(LargeRuns, WhatAServerKeepsOfEachClientIsCounted) {
  const double d = 4.0 * (6 * 100 + 100 + 100 * 10 + 10), n = 300;
  for (const auto& [method, expected] : {std::pair{"fedamp", n * d},
                                         {"fedham", n * d},
                                         {"aml2", 0.0},
                                         {"fedper", 0.0},
                                         {"fedavg", 0.0},
                                         {"ditto", 0.0}}) {
    const auto experiment = many({}, method);
    const auto session = make_session(experiment, *load_federation(experiment.data, 5));
    ASSERT_THAT(session, Succeeds());
    EXPECT_DOUBLE_EQ(session->method().server_bytes(session->server_setup(0, nullptr)), expected)
        << method;
  }
  const auto experiment = many({}, "pfedla");
  const auto session = make_session(experiment, *load_federation(experiment.data, 5));
  EXPECT_GT(session->method().server_bytes(session->server_setup(0, nullptr)), n * d);
}

}  // namespace
}  // namespace tessera

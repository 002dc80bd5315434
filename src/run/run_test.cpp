#include <ATen/ATen.h>
#include <malloc.h>

#include <cmath>
#include <set>

#include "base/key.hpp"
#include "io/sqlite.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "run/checkpoint.hpp"
#include "run/history.hpp"
#include "run/privacy_spent.hpp"
#include "run/saved_model.hpp"
#include "run/testing.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::kClasses;
using testing::kFeatures;
using testing::kParameters;
using testing::outcome;
using testing::Runs;
using testing::Succeeds;

// The means over clients, recomputed from the single clients' counts in the file.
std::map<int64_t, double> accuracies(const std::string& path, const std::string& view,
                                     const std::string& part, bool newcomers = false) {
  auto database = Database::open(path, Database::Mode::kReadOnly);
  auto rows = database->prepare(
      "SELECT round, avg(1.0 * correct / n) FROM client_evals JOIN clients ON client = id "
      "WHERE view = ? AND part = ? AND newcomer = ? GROUP BY round");
  rows->bind_all(view, part, newcomers);
  std::map<int64_t, double> out;
  while (*rows->step()) out[rows->integer(0)] = rows->real(1);
  return out;
}

TEST_F(Runs, WriteEveryFileAndEveryKeyOfTheContract) {
  const auto summary = run(experiment(), "a");
  for (const char* file : {"config.toml", "history.sqlite", "summary.json",
                           "checkpoint/state.sqlite", "models/client-0.safetensors",
                           "models/client-2.safetensors", "models/client-3.safetensors"})
    EXPECT_TRUE(fs::exists(out("a") + "/" + file)) << file;
  for (const char* key :
       {"method", "dataset", "model", "clients", "rounds", "seed", "parameters", "precision_macro",
        "f1_macro", "loss", "global_accuracy", "bytes_down", "bytes_up", "wall_seconds",
        "train_seconds", "peak_rss_bytes", "partition_digest", "history_digest"})
    EXPECT_TRUE(summary.contains(key)) << key;
  for (const auto& block : {summary, summary["newcomers"]})
    for (const char* name : {"accuracy", "accuracy_pre", "accuracy_post"})
      for (const char* key : {"mean", "std", "micro", "min", "max", "worst10", "best10"})
        EXPECT_TRUE(block[name][key].is_number()) << name << " " << key;
  EXPECT_EQ(summary["clients"], 3);
  EXPECT_EQ(summary["newcomers"]["clients"], 1);
  EXPECT_EQ(summary["parameters"], kParameters);
  EXPECT_EQ(json::parse(testing::get(out("a") + "/summary.json")), summary);
  EXPECT_GT(summary["peak_rss_bytes"], 10'000'000);
  EXPECT_EQ(summary["history_digest"].get<std::string>().size(), 64U);
  const auto again = load_experiment(out("a") + "/config.toml", {});
  ASSERT_THAT(again, Succeeds());
  EXPECT_EQ(run(*again, "b")["history_digest"], summary["history_digest"]);
}

TEST_F(Runs, NumbersOfTheSummaryFollowFromTheHistory) {
  const auto summary = run(experiment({"rounds=12"}), "a");
  const auto test = accuracies(out("a") + "/history.sqlite", "pre", "test");
  const auto val = accuracies(out("a") + "/history.sqlite", "pre", "val");
  ASSERT_EQ(test.size(), 6U);
  EXPECT_NEAR(summary["accuracy"]["mean"], test.at(12), 1e-12);
  EXPECT_NEAR(summary["last5_mean"],
              (test.at(4) + test.at(6) + test.at(8) + test.at(10) + test.at(12)) / 5, 1e-12);
  int64_t best = 2;
  for (const auto& [round, accuracy] : val)
    if (accuracy > val.at(best) + 1e-12) best = round;
  EXPECT_EQ(summary["best"]["round"], best);
  EXPECT_NEAR(summary["best"]["validation"], val.at(best), 1e-12);
  EXPECT_NEAR(summary["best"]["accuracy"]["mean"], test.at(best), 1e-12);
  EXPECT_NEAR(summary["accuracy_post"]["mean"],
              accuracies(out("a") + "/history.sqlite", "post", "test").at(12), 1e-12);
  EXPECT_NEAR(summary["newcomers"]["accuracy"]["mean"],
              accuracies(out("a") + "/history.sqlite", "pre", "test", true).at(12), 1e-12);
  EXPECT_EQ(summary["global_accuracy"], summary["accuracy_pre"]["mean"])
      << "fedavg holds one model";
  // Up and down: every round, every client, four bytes a parameter.
  EXPECT_EQ(summary["bytes_down"], 12 * 3 * 4 * kParameters);
  EXPECT_EQ(summary["bytes_up"], 12 * 3 * 4 * kParameters);
  EXPECT_GT(summary["wire_bytes_up"], summary["bytes_up"]);
}

TEST_F(Runs, OfEquallyGoodRoundsTheEarliestIsTheBest) {
  const auto summary = run(experiment({"train.lr=1e-12"}), "a");  // nothing moves
  EXPECT_EQ(summary["best"]["round"], 2);
}

TEST_F(Runs, AnInterruptionLosesNoFinishedRound) {
  const auto what = experiment({"federation.checkpoint_every=1000"});
  begin(what, "a", 3);
  EXPECT_EQ(CheckpointFile::open(out("a"))->second.facts.round, 3);
  std::vector<std::string> notes;
  run(what, RunRequest{.out = out("a"), .resume = true, .on_note = [&](const std::string& text) {
                         notes.push_back(text);
                       }});
  EXPECT_THAT(notes, ::testing::Contains("resuming after round 3"));
}

// Votes are of the saved models alone: no number of the run knows of them.
TEST_F(Runs, ModelsThatVoteAreSavedAndChangeNoNumber) {
  for (const char* method : {"fedavg", "fedper"}) {
    const auto plain = run(experiment({"output.model=post"}, method), method + std::string("-a"));
    const auto name = method + std::string("-b");
    const auto voted = run(experiment({"guard.vote.parts=3"}, method), name);
    for (const char* digest : {"rounds_digest", "figures_digest"})
      EXPECT_EQ(plain[digest], voted[digest]) << method;
    const auto one = load_model_of(out(method + std::string("-a")), "2"),
               three = load_model_of(out(name), "2");
    ASSERT_THAT(three, Succeeds());
    EXPECT_EQ(three->view, "post");
    EXPECT_TRUE(at::equal(three->weights.w, one->weights.w));
    ASSERT_EQ(three->voters.size(), 3U);
    for (const auto& voter : three->voters) EXPECT_FALSE(at::equal(voter.w, three->weights.w));
    EXPECT_FALSE(at::equal(three->voters[0].w, three->voters[1].w));
    // A newcomer's parts vote, too; the federation's model has none.
    EXPECT_THAT(three->answers.vote, ::testing::Optional(VoteAnswers{.parts = 3}));
    if (const auto global = load_model_of(out(name), "global"); global.ok()) {
      EXPECT_FALSE(global->answers.vote);
      EXPECT_TRUE(global->voters.empty());
    }
  }
}

TEST_F(Runs, SavedModelsPredictAsTheHistorySays) {
  run(experiment({"output.model=headline", "data.standardize=none"}, "fedper"), "a");
  const auto model = make_model("mlp100", {{kFeatures}, kClasses});
  auto database = Database::open(out("a") + "/history.sqlite", Database::Mode::kReadOnly);
  auto rows = database->prepare(
      "SELECT correct FROM client_evals WHERE round = 6 AND part = 'test' AND client = ? AND "
      "view = (SELECT value FROM meta WHERE key = 'headline')");
  for (int64_t id = 0; id < 3; ++id) {
    // Newcomers are drawn by key, so a client's file is known by its name in the history.
    auto name = database->prepare("SELECT name FROM clients WHERE id = ?");
    name->bind_all(id);
    ASSERT_TRUE(*name->step());
    const auto data = *read_npz(fmt::format("{}/client-{}.npz", data_->path(), name->text(0)));
    const auto saved =
        load_tensors(fmt::format("{}/models/client-{}.safetensors", out("a"), name->text(0)));
    ASSERT_THAT(saved, Succeeds());
    auto flat = (*model)->init(0);
    const auto views = (*model)->layout().views(flat.w);
    for (size_t i = 0; i < views.size(); ++i)
      at::Tensor(views[i]).copy_(saved->tensors.at((*model)->layout().slices()[i].name));
    const auto x = at::from_blob(const_cast<uint8_t*>(data.at("x_test").data.data()),
                                 {12, kFeatures}, at::kFloat);
    const auto y =
        at::from_blob(const_cast<uint8_t*>(data.at("y_test").data.data()), {12}, at::kLong);
    const auto right = (*model)->predict(flat, x).argmax(1).eq(y).sum().item<int64_t>();
    rows->bind_all(id);
    ASSERT_TRUE(*rows->step());
    EXPECT_EQ(rows->integer(0), right) << id;
    rows->reset();
  }
}

TEST_F(Runs, AreTheSameForAnyNumberOfThreadsAndThroughTheWire) {
  for (const char* method : {"fedavg", "fedper", "local", "centralized"}) {
    const auto what =
        experiment({"federation.participation=0.7", "federation.drop_rate=0.2"}, method);
    const auto one = run(what, RunRequest{.out = out(std::string(method) + "-1"), .threads = 1});
    const auto three = run(what, RunRequest{.out = out(std::string(method) + "-3"), .threads = 3});
    const auto wire =
        run(what,
            RunRequest{.out = out(std::string(method) + "-w"), .threads = 2, .through_wire = true});
    const auto expected = outcome(out(std::string(method) + "-1"), one);
    EXPECT_EQ(outcome(out(std::string(method) + "-3"), three), expected) << method;
    EXPECT_EQ(outcome(out(std::string(method) + "-w"), wire), expected) << method;
  }
  EXPECT_NE(run(experiment({"seed=4"}), "other")["history_digest"],
            run(experiment(), "this")["history_digest"]);
}

TEST_F(Runs, ResumedAnywhereAreTheSameAsUninterrupted) {
  const auto what = experiment({"federation.participation=0.7"}, "fedper");
  const auto whole = outcome(out("whole"), run(what, "whole"));
  EXPECT_EQ(whole.size(), 5U);  // four models and the digest
  int64_t signs = 0;
  run(what, RunRequest{.out = out("count"), .on_progress = [&](const Progress&) { ++signs; }});
  // Stopped at the n-th sign of life (between rounds, inside one, while it evaluates or writes
  // models), once more a little later, then left alone.
  for (int64_t at = 1; at <= signs; at += 3) {
    const auto name = fmt::format("stopped-{}", at);
    Result<json> ended = fail(Error::kInterrupted, "continue with --resume");
    for (const int64_t limit : {at, int64_t{5}, INT64_MAX}) {
      if (ended.ok()) break;
      ASSERT_THAT(ended, FailsWith(Error::kInterrupted, "continue with --resume"));
      EXPECT_FALSE(fs::exists(out(name) + "/summary.json"));
      std::atomic<bool> stop{false};
      int64_t seen = 0;
      const auto count = [&](const Progress&) { stop = ++seen >= limit; };
      ended = run_experiment(what, {.out = out(name),
                                    .threads = limit == at ? 1 : 2,
                                    .resume = limit != at || fs::exists(out(name)),
                                    .on_progress = count,
                                    .stop = &stop});
    }
    ASSERT_THAT(ended, Succeeds()) << at;
    EXPECT_EQ(outcome(out(name), *ended), whole) << "stopped at sign " << at << " of " << signs;
    fs::remove_all(out(name));
  }
}

TEST_F(Runs, WorkAfterTheLastCheckpointIsDoneAgain) {
  // As after kill -9: the history is ahead of the checkpoint, and a model file is half written.
  const auto what = experiment();
  const auto whole = outcome(out("whole"), run(what, "whole"));
  begin(what, "a", 2);
  const auto early = testing::get(checkpoint_path(out("a")));
  run(what, RunRequest{.out = out("a"), .resume = true});
  testing::put(checkpoint_path(out("a")), early);
  testing::put(out("a") + "/models/client-0.safetensors", "half a mod");
  fs::remove(out("a") + "/summary.json");
  const auto resumed = run(what, RunRequest{.out = out("a"), .resume = true});
  EXPECT_EQ(outcome(out("a"), resumed), whole);
}

TEST_F(Runs, ARunThatDiedBeforeItsFirstCheckpointStartsAnew) {
  const auto what = experiment();
  fs::create_directories(out("a"));
  testing::put(out("a") + "/config.toml", what.toml());
  testing::put(out("a") + "/history.sqlite", "");
  const auto resumed = run(what, RunRequest{.out = out("a"), .resume = true});
  EXPECT_EQ(resumed["history_digest"], run(what, "b")["history_digest"]);
}

TEST_F(Runs, AFinishedHistoryIsOneFile) {
  run(experiment(), "a");
  EXPECT_TRUE(std::filesystem::exists(out("a") + "/history.sqlite"));
  EXPECT_FALSE(std::filesystem::exists(out("a") + "/history.sqlite-wal"));
  EXPECT_THAT(Database::open(out("a") + "/history.sqlite", Database::Mode::kReadOnly), Succeeds());
  EXPECT_FALSE(std::filesystem::exists(out("a") + "/history.sqlite-shm"));
}

TEST_F(Runs, MoreRepliesThanARoundHasAreRefused) {
  EXPECT_THAT(run_experiment(experiment({"federation.min_replies=4"}), {.out = out("a")}),
              FailsWith(Error::kInvalid, "min_replies = 4 can never be reached"));
}

TEST_F(Runs, ProgressCountsUp) {
  std::vector<Progress> seen;
  run(experiment(),
      RunRequest{.out = out("a"), .on_progress = [&](const Progress& p) { seen.push_back(p); }});
  ASSERT_FALSE(seen.empty());
  int64_t last = 0;
  std::set<std::string> stages;
  for (const auto& p : seen) {
    EXPECT_EQ(p.rounds, 6);
    EXPECT_GE(p.round, last);
    last = p.round;
    stages.insert(words_of(p.stage));
  }
  EXPECT_EQ(last, 6);
  EXPECT_TRUE(std::isnan(seen.front().score));
  EXPECT_TRUE(seen.back().score > 0 && seen.back().score <= 1);
  EXPECT_GT(seen.back().loss, 0);
  EXPECT_EQ(stages,
            (std::set<std::string>{"loading data", "training", "evaluating", "summing up"}));
}

TEST_F(Runs, EpsilonGrowsInProgressAndStandsInTheHistory) {
  const auto what = experiment({"guard.dp.sigma=0.5", "guard.dp-sgd.sigma=1"});
  std::map<int64_t, Progress> seen;
  const auto watch = [&](const Progress& p) {
    if (p.stage != RunStage::kLoading) seen[p.round] = p;
  };
  const auto summary = run(what, RunRequest{.out = out("a"), .on_progress = watch});
  ASSERT_EQ(seen.size(), 7U);
  const auto sizes =
      Roster(*load_federation(what.data, derive(3, Purpose::kPartition))).train_sizes();
  for (const auto& [round, p] : seen) {
    EXPECT_EQ(p.epsilon, privacy_spent(what, std::ssize(sizes), round)->epsilon) << round;
    EXPECT_EQ(p.sample_epsilon, samples_spent(what, sizes, round)->epsilon) << round;
    EXPECT_TRUE(round == 0 || p.epsilon > seen[round - 1].epsilon) << round;
  }
  EXPECT_EQ(seen[6].epsilon, summary["privacy"]["epsilon"]);
  EXPECT_EQ(seen[6].sample_epsilon, summary["sample_privacy"]["epsilon"]);
  const auto history = *History::open(out("a") + "/history.sqlite")->get("privacy");
  EXPECT_THAT(history,
              AllOf(HasSubstr("for a whole client, after 6 rounds"),
                    HasSubstr("with 3 clients take more noise"), HasSubstr("for a single sample")));
  // Interrupted and continued, it is the same.
  begin(what, "b", 3);
  EXPECT_EQ(run(what, RunRequest{.out = out("b"), .resume = true})["privacy"], summary["privacy"]);
  EXPECT_EQ(*History::open(out("b") + "/history.sqlite")->get("privacy"), history);
}

TEST_F(Runs, MemoryDoesNotGrowWithRounds) {
  // Bytes in use at the same point of an early and of a late round; a leak of one model a round
  // (3.6 kB) would show as 0.7 MB.
  const auto in_use = [] {
    const auto info = ::mallinfo2();
    return static_cast<int64_t>(info.uordblks + info.hblkhd);
  };
  if (in_use() == 0) GTEST_SKIP() << "this allocator does not count";
  std::map<int64_t, int64_t> at_round;
  run(experiment({"rounds=250", "federation.eval_every=250", "federation.checkpoint_every=50"}),
      RunRequest{.out = out("a"), .on_progress = [&](const Progress& p) {
                   if (p.stage == RunStage::kTraining) at_round.emplace(p.round, in_use());
                 }});
  ASSERT_TRUE(at_round.contains(30) && at_round.contains(230));
  EXPECT_LT(at_round[230] - at_round[30], 200'000);
}

}  // namespace
}  // namespace tessera

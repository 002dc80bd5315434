#include <unistd.h>

#include "io/file.hpp"
#include "run/checkpoint.hpp"
#include "run/testing.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::FailsWith;
using testing::Runs;
using testing::Succeeds;
using testing::TempDir;

TEST_F(Runs, NothingIsOverwrittenUnasked) {
  const auto what = experiment();
  const auto first = run(what, "a");
  testing::put(out("a") + "/notes.txt", "mine");
  EXPECT_THAT(run_experiment(what, {.out = out("a")}), FailsWith(Error::kExists, "--force"));
  EXPECT_EQ(run(what, RunRequest{.out = out("a"), .resume = true}), first) << "nothing to do";
  const auto other = experiment({"seed=5"});
  const auto forced = run(other, RunRequest{.out = out("a"), .force = true});
  EXPECT_NE(forced["history_digest"], first["history_digest"]);
  EXPECT_EQ(testing::get(out("a") + "/notes.txt"), "mine");
  begin(what, "b", 2);
  EXPECT_THAT(run_experiment(what, {.out = out("b")}), FailsWith(Error::kExists, "--resume"));
}

TEST_F(Runs, AnotherConfigurationIsRefusedByTheKeyThatDiffers) {
  begin(experiment(), "a", 2);
  const auto refused = [&](std::vector<std::string> sets, const std::string& theirs,
                           const std::string& ours) {
    const auto result =
        run_experiment(experiment(std::move(sets)), {.out = out("a"), .resume = true});
    EXPECT_THAT(result,
                FailsWith(Error::kInvalid, fmt::format(": there '{}', here '{}'; ", theirs, ours)));
    EXPECT_THAT(message(result.status()), ::testing::Not(::testing::HasSubstr("\n")));
  };
  refused({"train.lr=0.2"}, "lr = 0.1", "lr = 0.2");
  refused({"rounds=60"}, "rounds = 6", "rounds = 60");
  refused({"train.momentum=0.5"}, "momentum = 0.0", "momentum = 0.5");
  const auto result = run_experiment(experiment({}, "local"), {.out = out("a"), .resume = true});
  EXPECT_THAT(result,
              FailsWith(Error::kInvalid, "there 'name = \"fedavg\"', here 'name = \"local\"'"));
  // What a method adds at the end is a difference too.
  EXPECT_THAT(run_experiment(experiment({}, "fedprox"), {.out = out("a"), .resume = true}),
              FailsWith(Error::kInvalid, "name = \"fedprox\""));
}

TEST_F(Runs, TheDataMayHaveMoved) {
  const auto what = experiment();
  const auto whole = run(what, "whole");
  begin(what, "a", 2);
  const TempDir moved;
  fs::copy(data_->path(), moved.path(), fs::copy_options::recursive);
  const auto resumed = run(experiment({"data.data_dir=" + moved.path()}),
                           RunRequest{.out = out("a"), .resume = true});
  EXPECT_EQ(resumed["history_digest"], whole["history_digest"]);
}

TEST_F(Runs, OneRunAtATimeInADirectory) {
  fs::create_directories(out("a"));
  const auto lock = DirLock::take(out("a"));
  ASSERT_THAT(lock, Succeeds());
  EXPECT_THAT(run_experiment(experiment(), {.out = out("a")}), FailsWith(Error::kBusy, out("a")));
  EXPECT_THAT(run_experiment(experiment(), {.out = out("a"), .force = true}),
              FailsWith(Error::kBusy, out("a")));
}

TEST_F(Runs, DamagedFilesAreClearErrorsAndStayForInspection) {
  const auto what = experiment();
  const auto resumed = [&](const std::string& name) {
    return run_experiment(what, {.out = out(name), .resume = true});
  };
  begin(what, "checkpoint", 3);
  const auto state = checkpoint_path(out("checkpoint"));
  auto bytes = testing::get(state);
  for (size_t i = 4096; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  testing::put(state, bytes);
  EXPECT_THAT(resumed("checkpoint"), FailsWith(Error::kInvalid, state));
  EXPECT_EQ(testing::get(state), bytes);
  EXPECT_TRUE(fs::exists(out("checkpoint") + "/history.sqlite"));

  begin(what, "history", 3);
  const auto history = out("history") + "/history.sqlite";
  bytes = testing::get(history);
  for (size_t i = 4096; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  testing::put(history, bytes);
  EXPECT_THAT(resumed("history"), FailsWith(Error::kInvalid, history));
  fs::remove(history);
  EXPECT_THAT(resumed("history"), FailsWith(Error::kInvalid, history));

  run(what, "summary");
  testing::put(out("summary") + "/summary.json", "{\"method\": ");
  EXPECT_THAT(resumed("summary"), FailsWith(Error::kInvalid, "summary.json"));
  run(what, RunRequest{.out = out("summary"), .force = true});
}

TEST_F(Runs, AStateOfAnotherShapeIsAnErrorNotACrash) {
  const auto what = experiment();
  const auto resumed = [&](const TensorDict& server, ClientId client) {
    std::filesystem::remove_all(out("a"));
    begin(what, "a", 2);
    {
      auto file = CheckpointFile::open(out("a"));
      EXPECT_THAT(file, Succeeds());
      EXPECT_THAT(file->first.save(file->second.facts, {server, {{client, TensorDict{}}}}),
                  Succeeds());
    }
    return run_experiment(what, {.out = out("a"), .resume = true});
  };
  begin(what, "b", 2);
  const auto good = CheckpointFile::open(out("b"))->second.server;
  EXPECT_THAT(resumed(good, 0), Succeeds());
  auto shorter = good;
  shorter["g.w"] = good.at("g.w").slice(0, 0, 10).clone();
  EXPECT_THAT(resumed(shorter, 0), FailsWith(Error::kInvalid, "'g.w' is Float [10], expected"));
  EXPECT_THAT(resumed({{"other", good.at("g.w")}}, 0), FailsWith(Error::kInvalid, "'g.w'"));
  EXPECT_THAT(resumed(good, 99), FailsWith(Error::kInvalid, "no client 99"));
}

TEST_F(Runs, PlacesThatCannotBeWrittenAreErrors) {
  testing::put(out("file"), "x");
  EXPECT_FALSE(run_experiment(experiment(), {.out = out("file")}).ok());
  EXPECT_FALSE(run_experiment(experiment(), {.out = out("file") + "/below"}).ok());
  EXPECT_EQ(testing::get(out("file")), "x");
}

TEST_F(Runs, AReadOnlyDirectoryIsAnError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::create_directories(out("locked"));
  fs::permissions(out("locked"), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THAT(run_experiment(experiment(), {.out = out("locked")}),
              FailsWith(Error::kIo, out("locked")));
  fs::permissions(out("locked"), fs::perms::owner_all);
}

TEST_F(Runs, TrainingThatDivergesEndsWithAClearError) {
  const auto result = run_experiment(experiment({"train.lr=1e30", "rounds=20"}), {.out = out("a")});
  EXPECT_THAT(result, FailsWith(Error::kInternal, "lower train.lr"));
  EXPECT_THAT(CheckpointFile::open(out("a")), Succeeds());
}

TEST_F(Runs, ForceKeepsTheOldRunUntilTheNewOneCanBegin) {
  const auto first = run(experiment(), "a");
  auto broken = experiment();
  broken.data.data_dir = "/nowhere";
  EXPECT_FALSE(run_experiment(broken, {.out = out("a"), .force = true}).ok());
  EXPECT_TRUE(std::filesystem::exists(out("a") + "/summary.json"));
}

TEST_F(Runs, AMissingCheckpointOfAPlayedRunIsAnErrorNotAFreshStart) {
  run(experiment(), "a");
  std::filesystem::remove(out("a") + "/summary.json");
  std::filesystem::remove_all(out("a") + "/checkpoint");
  EXPECT_THAT(run_experiment(experiment(), {.out = out("a"), .resume = true}),
              FailsWith(Error::kInvalid, "6 rounds were played"));
  EXPECT_TRUE(std::filesystem::exists(out("a") + "/history.sqlite"));
}

}  // namespace
}  // namespace tessera

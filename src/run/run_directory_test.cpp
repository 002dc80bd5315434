#include "run/run_directory.hpp"

#include <set>

#include "io/file.hpp"
#include "io/sqlite.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "io/testing.hpp"
#include "run/experiment.hpp"
#include "run/history.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::FailsWith;
using testing::Succeeds;
using testing::TempDir;

constexpr const char* kConfig =
    "name = \"toy\"\nseed = 1\nrounds = 6\n\n[data]\nset = \"npz\"\npartition = \"natural\"\n";
constexpr const char* kReport =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
    "<meta name=\"generator\" content=\"Tessera\"/>\n<title>toy</title>";

class RunDirectory : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return dir_.file(name); }
  void put(const std::string& name, std::string_view text) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    testing::put(path(name), text);
  }
  /// Everything that a finished run leaves.
  void finished_run() const {
    put("config.toml", kConfig);
    Federation nobody;
    auto history = History::create(path("history.sqlite"), {{"seed", "1"}}, nobody);
    ASSERT_THAT(history, Succeeds());
    ASSERT_THAT(history->append_round({.round = 1}), Succeeds());
    EvalReport report{.round = 1};
    report.exhibits = {{"pull", "Pull", Exhibit::Kind::kMatrix, at::ones({1, 2})}};
    ASSERT_THAT(history->append_evaluation(report, 0), Succeeds());
    put("checkpoint/state.sqlite", "a database");
    put("checkpoint/state.sqlite-wal", "its log");
    fs::create_directories(path("models"));
    for (const char* id : {"0", "12"})
      ASSERT_THAT(save_tensors(path(fmt::format("models/client-{}.safetensors", id)),
                               {{"w", at::ones({2})}},
                               {{"model", "mlp"}, {"method", "fedavg"}, {"client", id}}),
                  Succeeds());
    put("report.html", kReport);
    put("pull.csv", "round,row,column,value\n1,1,1,1\n");
    put(".lock", "77\n");
    put("summary.json", "{}");
  }
  /// Every file below the directory.
  std::set<std::string> files() const {
    std::set<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path()))
      out.insert(fs::relative(entry.path(), dir_.path()).string());
    return out;
  }
  void expect_refused(const std::string& text) const {
    const auto before = files();
    EXPECT_THAT(inspect_run(dir_.path()), FailsWith(Error::kExists, text));
    EXPECT_THAT(inspect_run(dir_.path()), FailsWith(Error::kExists, "another --out"));
    EXPECT_THAT(clear_run(dir_.path()), FailsWith(Error::kExists, text));
    EXPECT_EQ(files(), before) << "nothing is removed";
  }

  TempDir dir_;
};

TEST_F(RunDirectory, TellsWhatIsThere) {
  EXPECT_EQ(*inspect_run(path("nowhere")), RunState::kNone);
  EXPECT_EQ(*inspect_run(dir_.path()), RunState::kNone);
  put("notes.txt", "the owner's");
  put("plots/figure.svg", "<svg/>");
  put(".lock", "77\n");
  EXPECT_EQ(*inspect_run(dir_.path()), RunState::kNone);
  put("config.toml", kConfig);
  EXPECT_EQ(*inspect_run(dir_.path()), RunState::kUnfinished);
  put("history.sqlite", "");  // died while it was being made
  EXPECT_EQ(*inspect_run(dir_.path()), RunState::kUnfinished);
  fs::remove(path("history.sqlite"));
  finished_run();
  EXPECT_EQ(*inspect_run(dir_.path()), RunState::kFinished);
  fs::remove(path("summary.json"));
  EXPECT_EQ(*inspect_run(dir_.path()), RunState::kUnfinished);
  fs::remove(path("config.toml"));
  EXPECT_EQ(*inspect_run(dir_.path()), RunState::kUnfinished) << "by its history";
}

TEST_F(RunDirectory, ClearsARunAndNothingElse) {
  finished_run();
  const std::set<std::string> others{"notes.txt", "mine.csv",       "plots", "plots/a.html",
                                     "data",      "data/model.npz", ".lock", "summary.json.tmp.x"};
  put("notes.txt", "the owner's"), put("mine.csv", "a,b\n"), put("plots/a.html", "<p>");
  put("data/model.npz", "rows"), put("summary.json.tmp.x", "not ours: no numbers");
  for (const char* stale : {"summary.json.tmp.411.0", "config.toml.tmp.5.17", "pull.csv.tmp.5.18",
                            "models/client-3.safetensors.tmp.9.2", "checkpoint/state.sqlite-shm",
                            "history.sqlite-wal", "history.sqlite-shm"})
    put(stale, "");
  ASSERT_THAT(clear_run(dir_.path()), Succeeds());
  EXPECT_EQ(files(), others);
  EXPECT_EQ(*inspect_run(dir_.path()), RunState::kNone);
  EXPECT_THAT(clear_run(dir_.path()), Succeeds()) << "again";
  EXPECT_THAT(clear_run(path("nowhere")), Succeeds());
}

TEST_F(RunDirectory, ClearsTemporariesOfARunThatDiedAtItsFirstFile) {
  put("config.toml.tmp.311.0", "name = ");
  put("notes.toml.tmp.311.0", "the owner's");
  ASSERT_THAT(clear_run(dir_.path()), Succeeds());
  EXPECT_EQ(files(), (std::set<std::string>{"notes.toml.tmp.311.0"}));
}

TEST_F(RunDirectory, AnExhibitsTableOfTheOwnerStays) {
  finished_run();
  put("pull.csv", "force,distance\n1,2\n");
  ASSERT_THAT(clear_run(dir_.path()), Succeeds());
  EXPECT_TRUE(fs::exists(path("pull.csv")));
}

TEST_F(RunDirectory, ClearsWhatIsDamaged) {
  finished_run();
  put("history.sqlite", std::string(8192, 'x'));
  put("models/client-0.safetensors", "half a mod");
  put("summary.json", "[]");
  EXPECT_EQ(*inspect_run(dir_.path()), RunState::kFinished);
  ASSERT_THAT(clear_run(dir_.path()), Succeeds());
  EXPECT_EQ(files(), (std::set<std::string>{".lock", "pull.csv"}))
      << "which tables were the run's is not known any more";
}

TEST_F(RunDirectory, ClearsRunsOfOlderVersions) {
  put("config.toml", kConfig);
  put("checkpoint/state.safetensors", "a state");
  ASSERT_THAT(clear_run(dir_.path()), Succeeds());
  EXPECT_TRUE(files().empty());
}

TEST_F(RunDirectory, ModelsOfSomebodyElse) {
  put("models/resnet.safetensors", "weights");
  expect_refused("models: holds 'resnet.safetensors'");
}

TEST_F(RunDirectory, ModelsOfSomebodyElseBesideARun) {
  finished_run();
  put("models/readme.md", "the owner's");
  expect_refused("models: holds 'readme.md'");
  fs::remove(path("models/readme.md"));
  put("models/client-x.safetensors", "not a number");
  expect_refused("client-x.safetensors: is not a model of a run");
  fs::remove(path("models/client-x.safetensors"));
  fs::create_directories(path("models/client-4.safetensors"));
  expect_refused("models: holds 'client-4.safetensors'");
}

TEST_F(RunDirectory, AModelThatIsNotOfARun) {
  finished_run();
  ASSERT_THAT(write_file_atomic(path("models/client-5.safetensors"),
                                encode({{"w", at::ones({2})}}, {{"format", "pt"}})),
              Succeeds());
  expect_refused("client-5.safetensors: is not a model of a run");
}

TEST_F(RunDirectory, ModelsAndPagesWithoutARun) {
  put("models/client-0.safetensors", "half");
  expect_refused("models: is there without");
  fs::remove_all(path("models"));
  put("report.html", kReport);  // a comparison has one, too
  expect_refused("report.html: is there without");
  put("report.html", "<p>the owner's</p>");
  expect_refused("report.html: is not a report of Tessera");
  fs::remove(path("report.html"));
  put("summary.json", "{}");
  expect_refused("summary.json: is there without");
}

TEST_F(RunDirectory, APageOfTheOwnerBesideARun) {
  finished_run();
  put("report.html", "<p>the owner's</p>");
  expect_refused("report.html: is not a report of Tessera");
}

TEST_F(RunDirectory, CheckpointsOfSomebodyElse) {
  put("checkpoint/epoch-7.pt", "weights");
  expect_refused("checkpoint: holds 'epoch-7.pt'");
  put("config.toml", kConfig);
  expect_refused("checkpoint: holds 'epoch-7.pt'");
  fs::remove_all(path("checkpoint")), fs::remove(path("config.toml"));
  put("checkpoint/state.sqlite", "a database");
  expect_refused("checkpoint: is there without");
  fs::remove_all(path("checkpoint"));
  put("checkpoint", "a file");
  expect_refused("checkpoint: is not a folder");
}

TEST_F(RunDirectory, ConfigurationsOfSomebodyElse) {
  put("config.toml", "[server]\nport = 80\n");
  expect_refused("config.toml: was not written by a run");
  put("config.toml", "");
  expect_refused("config.toml: was not written by a run");
  put("config.toml", "name = \"toy\"\n[data]\nset = \"npz\"\n");
  expect_refused("config.toml: was not written by a run");
}

TEST_F(RunDirectory, KnowsWhatARunWrites) {
  const auto experiment = parse_experiment(
      "name = \"a [strange] \\\"name\\\"\"\n[method]\nname = \"fedavg\"\n", "e.toml", {});
  ASSERT_THAT(experiment, Succeeds());
  put("config.toml", experiment->toml());
  EXPECT_EQ(*inspect_run(dir_.path()), RunState::kUnfinished);
}

TEST_F(RunDirectory, AConfigurationThatTheOwnerChangedBesideAHistory) {
  finished_run();
  put("config.toml", std::string("# my notes\n") + kConfig);
  EXPECT_EQ(*inspect_run(dir_.path()), RunState::kFinished);
}

TEST_F(RunDirectory, HistoriesOfSomebodyElse) {
  {
    auto other = Database::open(path("history.sqlite"), Database::Mode::kReadWrite);
    ASSERT_THAT(other, Succeeds());
    ASSERT_THAT(other->execute("CREATE TABLE urls (url TEXT)"), Succeeds());
  }
  expect_refused("history.sqlite: is not the history of a run");
  put("config.toml", kConfig);
  expect_refused("history.sqlite: is not the history of a run");
  fs::remove(path("config.toml"));
  put("history.sqlite", "sold, bought");
  expect_refused("history.sqlite: is not the history of a run");
  fs::remove(path("history.sqlite"));
  fs::create_directories(path("history.sqlite"));
  expect_refused("history.sqlite: is not a file");
}

TEST_F(RunDirectory, LinksOfTheOwnerStay) {
  finished_run();
  const TempDir elsewhere;
  fs::copy(path("models"), elsewhere.path(), fs::copy_options::recursive);
  fs::remove_all(path("models"));
  fs::create_directory_symlink(elsewhere.path(), path("models"));
  ASSERT_THAT(clear_run(dir_.path()), Succeeds());
  EXPECT_TRUE(fs::is_symlink(path("models")));
  EXPECT_TRUE(elsewhere.names().empty()) << "the models were the run's";
}

TEST_F(RunDirectory, NoticesThatItWasRemovedOrReplaced) {
  EXPECT_FALSE(RunPlace::remember(path("run")).ok());
  fs::create_directories(path("run"));
  auto history = History::create(path("run/history.sqlite"), {}, {});
  ASSERT_THAT(history, Succeeds());
  const auto place = RunPlace::remember(path("run"));
  ASSERT_THAT(place, Succeeds());
  ASSERT_THAT(history->append_round({.round = 1}), Succeeds());
  EXPECT_THAT(place->still_there(), Succeeds());
  fs::rename(path("run"), path("moved"));
  EXPECT_THAT(place->still_there(), FailsWith(Error::kIo, "was removed or replaced"));
  fs::rename(path("moved"), path("run"));
  EXPECT_THAT(place->still_there(), Succeeds());
  fs::remove_all(path("run"));
  EXPECT_THAT(place->still_there(), FailsWith(Error::kIo, path("run")));
  fs::create_directories(path("run"));
  auto other = History::create(path("run/history.sqlite"), {}, {});
  EXPECT_THAT(place->still_there(), FailsWith(Error::kIo, "was removed or replaced"));
}

}  // namespace
}  // namespace tessera

// Runs: files, repeatability, interruption.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "io/sqlite.hpp"
#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class Run : public Playground {};

TEST_F(Run, WritesEverythingAndSaysWhere) {
  const auto done = tessera({"run", path("e.toml")}, {.directory = root_});
  ASSERT_EQ(done.code, 0) << done.err;
  const std::string out = "runs/toy/fedavg-s1";
  for (const char* name : {"config.toml", "history.sqlite", "checkpoint", "report.html",
                           "summary.json", "models/client-a.safetensors"})
    EXPECT_TRUE(exists(out + "/" + name)) << name;
  EXPECT_THAT(done.out, HasSubstr(out + "/report.html"));
  EXPECT_THAT(done.out, HasSubstr("after personalization"));
  EXPECT_THAT(done.err, HasSubstr("round 6/6"));
  const auto summary = json(out + "/summary.json");
  for (const char* key :
       {"method",        "dataset",      "model",         "clients",         "rounds",
        "seed",          "parameters",   "accuracy",      "precision_macro", "f1_macro",
        "loss",          "accuracy_pre", "accuracy_post", "global_accuracy", "bytes_down",
        "bytes_up",      "wall_seconds", "train_seconds", "peak_rss_bytes",  "partition_digest",
        "history_digest"})
    EXPECT_TRUE(summary.contains(key)) << key;
  EXPECT_EQ(summary["bytes_down"], 6 * 4 * 1003 * 4);
  // The resolved configuration is the same experiment.
  const auto again =
      tessera({"run", path(out + "/config.toml"), "--out", path("again"), "--quiet"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(digest("again"), digest(out));
}

TEST_F(Run, JsonIsAllThatIsPrinted) {
  const auto done = run("a", {"--json"});
  EXPECT_EQ(done.code, 0);
  EXPECT_EQ(done.err, "");
  EXPECT_EQ(nlohmann::json::parse(done.out, nullptr, false), json("a/summary.json"));
}

TEST_F(Run, ThreadsAndTheWireChangeNothing) {
  ASSERT_EQ(run("one", {"--threads", "1"}).code, 0);
  ASSERT_EQ(run("four", {"--threads", "4"}).code, 0);
  ASSERT_EQ(run("wire", {"--through-wire"}).code, 0);
  EXPECT_EQ(digest("four"), digest("one"));
  EXPECT_EQ(digest("wire"), digest("one"));
  ASSERT_EQ(run("other", {"--set", "seed=2"}).code, 0);
  EXPECT_NE(digest("other"), digest("one"));
}

TEST_F(Run, AFinishedRunIsNotOverwritten) {
  ASSERT_EQ(run("a").code, 0);
  const auto before = slurp(path("a/summary.json"));
  const auto refused = run("a");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(error_lines(refused), 1);
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  EXPECT_EQ(slurp(path("a/summary.json")), before);
  EXPECT_EQ(run("a", {"--resume"}).code, 0);
  EXPECT_EQ(slurp(path("a/summary.json")), before);
  EXPECT_EQ(run("a", {"--force", "--set", "seed=5"}).code, 0);
  EXPECT_EQ(json("a/summary.json")["seed"], 5);
}

TEST_F(Run, ResumesAfterAKillAsIfNothingHadHappened) {
  auto process = long_run("killed", 3);
  process->signal(SIGKILL);
  EXPECT_EQ(process->wait().code, -SIGKILL);
  ASSERT_FALSE(exists("killed/summary.json")) << "the run was over before it could be killed";
  const auto without = run("killed");
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("--resume"));
  const auto resumed = run("killed", {"--resume"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  ASSERT_EQ(run("whole").code, 0);
  EXPECT_EQ(digest("killed"), digest("whole"));
}

TEST_F(Run, CtrlCStopsCleanlyAndResumes) {
  auto process = long_run("stopped", 3);
  process->signal(SIGINT);
  const auto stopped = process->wait();
  EXPECT_EQ(stopped.code, 130);
  EXPECT_THAT(stopped.err, HasSubstr("--resume"));
  ASSERT_FALSE(exists("stopped/summary.json"));
  const auto resumed = run("stopped", {"--resume"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  ASSERT_EQ(run("whole").code, 0);
  EXPECT_EQ(digest("stopped"), digest("whole"));
}

TEST_F(Run, ReportCanBeRebuilt) {
  ASSERT_EQ(run("a").code, 0);
  const auto page = slurp(path("a/report.html"));
  std::filesystem::remove(path("a/report.html"));
  const auto done = tessera({"report", path("a")});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(slurp(path("a/report.html")), page);
  const auto nothing = tessera({"report", path("data")});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("holds neither a run"));
}

TEST_F(Run, ReportExportsExhibits) {
  ASSERT_EQ(run("a").code, 0);
  EXPECT_EQ(tessera({"report", path("a")}).out, path("a") + "/report.html\n")
      << "fedavg shows none";
  {
    auto history = Database::open(path("a/history.sqlite"), Database::Mode::kReadWrite);
    ASSERT_TRUE(history.ok()) << history.status();
    for (const int round : {6, 2})
      ASSERT_TRUE(history
                      ->execute(fmt::format(
                          "INSERT INTO exhibits VALUES({},'pull','matrix','Pull','[\"near, far\"]',"
                          "'[\"x\",\"y\"]','[1,2]',x'000000000000E03F000000000000F87F')",
                          round))
                      .ok());
  }
  const auto done = tessera({"report", path("a")});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, path("a") + "/report.html\n" + path("a") + "/pull.csv\n");
  EXPECT_EQ(slurp(path("a/pull.csv")),
            "round,row,column,value\n2,\"near, far\",x,0.5\n2,\"near, far\",y,\n"
            "6,\"near, far\",x,0.5\n6,\"near, far\",y,\n");
  EXPECT_THAT(slurp(path("a/report.html")), HasSubstr("Inside the method"));
  write("a/mine.csv", "the owner's");
  ASSERT_EQ(run("a", {"--force"}).code, 0);
  EXPECT_FALSE(exists("a/pull.csv")) << "of the run that is gone";
  EXPECT_TRUE(exists("a/mine.csv"));
}

TEST_F(Run, NewcomersAndTheirTrafficAreShown) {
  const auto done =
      tessera({"run", path("e.toml"), "--out", path("n"), "--quiet", "--set", "data.newcomers=1"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("newcomers, before"));
  EXPECT_THAT(done.out, HasSubstr("newcomers, after"));
  EXPECT_THAT(done.out, HasSubstr("a newcomer gets its model by 0 exchanges and 4.01 kB"));
  EXPECT_THAT(done.out, HasSubstr("(12.0 kB more for an evaluation)"));
  const auto summary = json("n/summary.json");
  EXPECT_EQ(summary["evaluation"], (nlohmann::json{{"bytes_down", 3 * 1003 * 4}, {"bytes_up", 0}}));
  EXPECT_EQ(summary["onboarding"],
            (nlohmann::json{{"exchanges", 0}, {"bytes_down", 1003 * 4}, {"bytes_up", 0}}));
  EXPECT_THAT(slurp(path("n/report.html")), HasSubstr("<td>Getting a newcomer its model</td>"));
}

TEST_F(Run, AClosedStandardOutputIsAnError) {
  const auto done = tessera(run_words("a"), {.standard_output = "/dev/full"});
  EXPECT_EQ(done.code, 1);
  EXPECT_THAT(done.err, HasSubstr("standard output"));
  EXPECT_TRUE(exists("a/summary.json"));
}

TEST_F(Run, MethodsThatDoNotFitSaySoBeforeAnythingIsDone) {
  const std::vector<std::tuple<std::string, std::vector<std::string>, std::string>> cases{
      {"pfedht", {}, "vit-s"},
      {"fed_t_a", {}, "lenet"},
      {"fedham", {"method.k=9"}, "k = 9 is more than the 4 clients"},
      {"fedacs", {"method.p=1.5"}, "method.p"},
      {"fedmetaper-maml", {"data.newcomers=1"}, "method.head_bank"},
      {"pfedhn", {"method.hidden=100000"}, "GB"},
  };
  for (const auto& [method, sets, expected] : cases) {
    experiment(method);
    for (const std::string command : {"check", "run"}) {
      std::vector<std::string> words{command, path("e.toml")};
      for (const auto& set : sets) words.insert(words.end(), {"--set", set});
      if (command == "run") words.insert(words.end(), {"--out", path("x"), "--quiet"});
      const auto done = tessera(words);
      EXPECT_EQ(done.code, 2) << method << ": " << done.err;
      EXPECT_EQ(error_lines(done), 1) << done.err;
      EXPECT_THAT(done.err, HasSubstr(expected)) << method;
      EXPECT_FALSE(exists("x/history.sqlite"));
    }
  }
}

}  // namespace
}  // namespace tessera::testing

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class Compare : public Playground {
 protected:
  std::vector<std::string> words(const std::string& out,
                                 const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"compare", path("e.toml"), "--methods", "local,fedavg", "--seeds",
                                 "2",       "--quiet",      "--out",     path(out)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// accuracy_mean by row.
  nlohmann::json accuracies(const std::string& out) {
    nlohmann::json all;
    for (const auto& row : json(out + "/table.json")) all[row["method"]] = row["accuracy_mean"];
    return all;
  }
};

TEST_F(Compare, TablesReportAndCells) {
  const auto done = tessera(words("c"));
  ASSERT_EQ(done.code, 0) << done.err;
  for (const char* name :
       {"table.md", "table.csv", "table.json", "report.html", "local-s1/summary.json",
        "local-s2/summary.json", "fedavg-s1/report.html", "fedavg-s2/summary.json"})
    EXPECT_TRUE(exists(std::string("c/") + name)) << name;
  const auto table = json("c/table.json");
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(table[2]["method"], "fedavg (post)");
  EXPECT_EQ(table[0]["paired_by"], "seeds");
  const auto one = json("c/local-s1/summary.json"), two = json("c/local-s2/summary.json");
  EXPECT_NEAR(table[0]["accuracy_mean"],
              (one["accuracy"]["mean"].get<double>() + two["accuracy"]["mean"].get<double>()) / 2,
              1e-12);
  EXPECT_THAT(done.out, HasSubstr("accuracy % (± seeds)"));
  EXPECT_THAT(done.out, HasSubstr("fedavg (post)"));
  // For machines: numbers as in table.json, nothing rounded.
  const auto csv = slurp(path("c/table.csv"));
  EXPECT_THAT(csv, ::testing::StartsWith("method,"));
  EXPECT_THAT(csv, HasSubstr(table[0]["accuracy_mean"].dump()));
  EXPECT_THAT(csv, ::testing::Not(HasSubstr("±")));
}

TEST_F(Compare, SaysOnceWhatBecameOfTheData) {
  const auto done = tessera(
      {"compare", path("e.toml"), "--methods", "local,fedavg", "--seeds", "2", "--out", path("c")});
  ASSERT_EQ(done.code, 0) << done.err;
  size_t times = 0;
  const std::string note = "4 clients from";
  for (auto at = done.err.find(note); at != std::string::npos; at = done.err.find(note, at + 1))
    ++times;
  EXPECT_EQ(times, 1u) << done.err;
}

TEST_F(Compare, RefusesADumpWhichIsOfOneRun) {
  const auto done = tessera(words("c", {"--set", "debug.dump=" + path("d")}));
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("debug.dump is for a single run"));
  EXPECT_EQ(error_lines(done), 1);
  EXPECT_FALSE(exists("d"));
  EXPECT_FALSE(exists("c/local-s1"));
}

TEST_F(Compare, ReadsWhatIsThere) {
  ASSERT_EQ(tessera(words("c")).code, 0);
  const auto cell = slurp(path("c/fedavg-s2/summary.json"));
  const auto table = slurp(path("c/table.json"));
  const auto again = tessera(words("c", {"--json"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, table);  // wall times are in both: nothing was run again
  EXPECT_EQ(slurp(path("c/fedavg-s2/summary.json")), cell);
  std::filesystem::remove(path("c/report.html"));
  EXPECT_EQ(tessera({"report", path("c")}).code, 0);
  EXPECT_TRUE(exists("c/report.html"));
}

TEST_F(Compare, OtherConfigurationsAreNotOverwritten) {
  ASSERT_EQ(tessera(words("c")).code, 0);
  const auto refused = tessera(words("c", {"--set", "train.lr=0.05"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(error_lines(refused), 1);
  EXPECT_THAT(refused.err, HasSubstr("c/local-s1"));
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  EXPECT_EQ(tessera(words("c", {"--set", "train.lr=0.05", "--force"})).code, 0);
  EXPECT_THAT(slurp(path("c/local-s1/config.toml")), HasSubstr("lr = 0.05\n"));
}

TEST_F(Compare, ContinuesAfterCtrlC) {
  experiment("fedavg", kLongRounds);
  Process process(words("c"), {});
  ASSERT_TRUE(process.wait_until([&] { return rounds_done("c/local-s2") >= 2; }));
  process.signal(SIGINT);
  const auto stopped = process.wait();
  EXPECT_EQ(stopped.code, 130);
  EXPECT_THAT(stopped.err, HasSubstr("the same command continues"));
  const auto first = slurp(path("c/local-s1/summary.json"));
  ASSERT_EQ(tessera(words("c")).code, 0);
  EXPECT_EQ(slurp(path("c/local-s1/summary.json")), first);
  ASSERT_EQ(tessera(words("whole")).code, 0);
  EXPECT_EQ(accuracies("c"), accuracies("whole"));
}

TEST_F(Compare, OneSeedIsComparedOverClients) {
  const auto done = tessera(
      {"compare", path("e.toml"), "--methods", "local,fedper", "--out", path("c"), "--quiet"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("accuracy % (± clients)"));
  EXPECT_THAT(done.out, HasSubstr("paired t-test over clients"));
}

TEST_F(Compare, AMethodMayStandThereWithSeveralSettings) {
  const auto done =
      tessera({"compare", path("e.toml"), "--methods",
               "fedprox:mu=0,fedprox:mu=1:train.lr=0.02,fedavg", "--out", path("c"), "--quiet"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(slurp(path("c/fedprox-mu=1-train.lr=0.02-s1/config.toml")), HasSubstr("mu = 1.0\n"));
  EXPECT_THAT(slurp(path("c/fedprox-mu=1-train.lr=0.02-s1/config.toml")), HasSubstr("lr = 0.02\n"));
  const auto all = accuracies("c");
  EXPECT_EQ(all["fedprox mu=0"], all["fedavg"]);  // the same method
  EXPECT_TRUE(all.contains("fedprox mu=1 train.lr=0.02"));
}

TEST_F(Compare, ASettingIsChosenOnTheValidationSplitOfTheFirstSeed) {
  // A rate of 0 learns nothing, so that the choice is known; the worse candidate runs once only.
  const auto done = tessera({"compare", path("e.toml"), "--methods", "fedper:train.lr=1e-9|0.1",
                             "--seeds", "2", "--out", path("c"), "--quiet"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto all = accuracies("c");
  EXPECT_EQ(all.size(), 1u) << all;
  EXPECT_TRUE(all.contains("fedper train.lr=0.1")) << all;
  EXPECT_TRUE(exists("c/fedper-train.lr=1e-9-s1/summary.json"));
  EXPECT_FALSE(exists("c/fedper-train.lr=1e-9-s2"));
  EXPECT_TRUE(exists("c/fedper-train.lr=0.1-s2/summary.json"));
}

TEST_F(Compare, ARowIsAMethodInAView) {
  const auto done =
      tessera({"compare", path("e.toml"), "--methods", "fedper@pre,fedper@post,fedavg@post",
               "--seeds", "2", "--out", path("c"), "--quiet"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto table = json("c/table.json");
  ASSERT_EQ(table.size(), 3u) << "FedAvg's other view was not asked for";
  const char* views[] = {"pre", "post", "post"};
  for (size_t i = 0; i < 3; ++i) {
    const auto method = i < 2 ? std::string("fedper") : std::string("fedavg");
    EXPECT_EQ(table[i]["method"], method + " (" + views[i] + ")");
    double mean = 0;  // the same from the runs themselves
    for (const char* seed : {"1", "2"})
      mean += json("c/" + method + "-s" + seed +
                   "/summary.json")["accuracy_" + std::string(views[i])]["mean"]
                  .get<double>() /
              2;
    EXPECT_NEAR(table[i]["accuracy_mean"].get<double>(), mean, 1e-12);
  }
  EXPECT_EQ(table[0]["runs"], table[1]["runs"]) << "two views of one run";
  EXPECT_THAT(done.out, HasSubstr("95 % interval"));
  EXPECT_TRUE(table[0]["difference_low"] <= table[0]["difference"]);
}

TEST_F(Compare, EveryMethodChoosesFromTheSameGridInItsOwnView) {
  // The least rate learns nothing, so the greatest or the middle one is chosen.
  const auto done = tessera({"compare", path("e.toml"), "--methods", "fedavg,fedper@pre", "--grid",
                             "train.lr=1e-9x,0.5x,1x", "--out", path("c"), "--quiet"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto table = json("c/table.json");
  ASSERT_EQ(table.size(), 3u);  // fedavg, fedavg (post), fedper (pre), each with its own choice
  for (const auto& row : table) {
    const auto note = row["note"].get<std::string>();
    EXPECT_THAT(note, HasSubstr(" of 1e-10, 0.05, 0.1"));
    const bool edge = row["method"].get<std::string>().find("train.lr=0.1") != std::string::npos;
    EXPECT_EQ(note.find("edge") != std::string::npos, edge) << row;
  }
  // Each choice is the best validation accuracy of its view: the summaries say so themselves.
  EXPECT_TRUE(exists("c/fedper-train.lr=0.05-s1/summary.json"));
  EXPECT_TRUE(exists("c/fedavg-train.lr=1e-10-s1/summary.json"));
}

TEST_F(Compare, ACandidateThatDivergesIsLeftOut) {
  const auto done = tessera({"compare", path("e.toml"), "--methods", "fedavg:train.lr=1e30|0.1",
                             "--seeds", "2", "--out", path("c"), "--quiet"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("fedavg-train.lr=1e30-s1: "));
  EXPECT_TRUE(accuracies("c").contains("fedavg train.lr=0.1"));
  const auto none = tessera({"compare", path("e.toml"), "--methods", "fedavg:train.lr=1e30|1e31",
                             "--out", path("d"), "--quiet"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("every upload was rejected"));
}

TEST_F(Compare, WrongWords) {
  const auto expect_wrong = [&](const std::vector<std::string>& more, const std::string& text) {
    std::vector<std::string> all{"compare", path("e.toml"), "--out", path("c")};
    all.insert(all.end(), more.begin(), more.end());
    const auto done = tessera(all);
    EXPECT_EQ(done.code, 2);
    EXPECT_EQ(error_lines(done), 1);
    EXPECT_THAT(done.err, HasSubstr(text));
    EXPECT_FALSE(exists("c"));
  };
  expect_wrong({"--methods", "local,fedagv"}, "unknown method 'fedagv' (did you mean 'fedavg'?)");
  expect_wrong({"--methods", "local,local"}, "'local' is listed twice");
  expect_wrong({"--methods", "local@post,local@post"}, "'local (post)' is listed twice");
  expect_wrong({"--methods", "local@best"}, "'@best' in 'local@best' is no view");
  expect_wrong({"--methods", "local", "--grid", "lr"}, "--grid: 'lr' is not of the form");
  expect_wrong({"--methods", "local,"}, "--methods");
  expect_wrong({"--methods", "fedprox:mu"}, "'mu' in 'fedprox:mu' is not of the form key=value");
  expect_wrong({"--methods", "fedprox:nu=1"}, "(did you mean 'mu'?)");
  expect_wrong({"--methods", "local", "--seeds", "x"}, "'x' is not a seed");
  expect_wrong({"--methods", "local", "--seeds", "1,1"}, "1 is listed twice");
  expect_wrong({"--methods", "local", "--seeds", "0"}, "how many seeds");
  expect_wrong({"--methods", "local,fedprox", "--set", "method.mu=1"}, "method.mu");
}

}  // namespace
}  // namespace tessera::testing

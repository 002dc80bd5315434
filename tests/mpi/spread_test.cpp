// --spread cells: ranks play whole runs, and what lies there afterwards is what one process leaves.
#include <csignal>
#include <filesystem>

#include "ranks_play.hpp"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::StartsWith;

class Spread : public Ranks {
 protected:
  std::vector<std::string> compare_words(const std::string& methods, const std::string& out,
                                         const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"compare", path("e.toml"), "--methods", methods, "--out",
                                   path(out), "--quiet",      "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// table.json without what a clock says.
  nlohmann::json table(const std::string& out) const {
    auto rows = json(out + "/table.json");
    for (auto& row : rows) row.erase("wall_seconds"), row.erase("sim_seconds");
    return rows;
  }
  /// Names below a directory; of a checkpoint's log nothing.
  std::vector<std::string> files(const std::string& out) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(path(out)))
      if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), path(out)));
    std::sort(names.begin(), names.end());
    return names;
  }
};

// A choice among settings decides what is played on the second seed: that is known when the first
// is done.
TEST_F(Spread, AComparisonIsThatOfOneProcess) {
  experiment("fedavg", 3);
  const std::string methods = "local,fedper:train.lr=0.01|0.1,fedavg";
  const auto one = tessera(compare_words(methods, "one", {"--seeds", "2"}));
  ASSERT_EQ(one.code, 0) << one.err;
  const auto many =
      play(2, compare_words(methods, "many", {"--seeds", "2", "--spread", "cells", "--json"}));
  ASSERT_EQ(many.code, 0) << many.err;
  EXPECT_EQ(spoken(many), "");
  EXPECT_EQ(nlohmann::json::parse(many.out, nullptr, false), json("many/table.json"))
      << "printed once";
  EXPECT_EQ(table("many"), table("one"));
  EXPECT_EQ(files("many"), files("one"));
  int cells = 0;
  for (const auto& entry : fs::directory_iterator(path("one"))) {
    if (!entry.is_directory()) continue;
    const auto cell = entry.path().filename().string();
    EXPECT_EQ(digest("many/" + cell), digest("one/" + cell)) << cell;
    ++cells;
  }
  EXPECT_EQ(cells, 7);  // local and fedavg on two seeds, fedper: two settings, then one of them
  // In one process the flag changes nothing, and there is nothing left to play.
  const auto again = tessera(compare_words(methods, "many", {"--seeds", "2", "--spread", "cells"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out.find("report.html"), again.out.rfind("report.html"));
}

TEST_F(Spread, ARankThatDiesCostsNoFinishedCell) {
  experiment("fedavg", 120);
  ASSERT_EQ(tessera(compare_words("fedavg,fedper,local", "one")).code, 0);
  ASSERT_EQ(tessera(compare_words("fedavg", "many")).code, 0);
  const auto finished = slurp(path("many/fedavg-s1/summary.json"));
  const auto words = compare_words("fedavg,fedper,local", "many", {"--spread", "cells"});
  {
    Process process(mpirun_words(2, words, 1), mpirun());
    // The first cell that is not there goes to the last rank.
    ASSERT_TRUE(process.wait_until([&] { return rounds_done("many/fedper-s1") >= 3; }))
        << process.err();
    ASSERT_EQ(kill(std::stoi(slurp(path("pid"))), SIGKILL), 0);
    const auto died = process.wait(std::chrono::seconds(30));
    EXPECT_GT(died.code, 0);
    EXPECT_THAT(spoken(died), StartsWith("tessera: rank 1 ("));
    EXPECT_THAT(spoken(died), EndsWith("has died, so the run ends here; finished cells are kept, "
                                       "and the same command continues from there\n"));
    EXPECT_EQ(error_lines(died), 1) << died.err;
    EXPECT_FALSE(exists("many/fedper-s1/summary.json")) << "it was that rank's";
  }
  const auto resumed = play(2, words);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(slurp(path("many/fedavg-s1/summary.json")), finished);
  for (const char* cell : {"/fedavg-s1", "/fedper-s1", "/local-s1"})
    EXPECT_EQ(digest(std::string("many") + cell), digest(std::string("one") + cell)) << cell;
}

TEST_F(Spread, ExhibitsLeaveTheRecordsOfOneProcess) {
  fs::create_directory(path("x"));
  write("x/TOY-T1.toml",
        "id = \"TOY-T1\"\ntitle = \"A toy\"\narticle = \"TOY\"\nfigure = \"curves\"\nseeds = 2\n"
        "[base]\nrounds = 2\ndata = { set = \"npz\", partition = \"natural\", data_dir = \"" +
            path("data") +
            "\" }\nmodel.name = \"mlp100\"\ntrain = { lr = 0.1, batch = 8 }\n"
            "[[column]]\nname = \"plain\"\n[[column]]\nname = \"half\"\ntrain.lr = 0.05\n"
            "[[row]]\nname = \"FedAvg\"\nmethod = \"fedavg\"\n"
            "[[row]]\nname = \"FedPer\"\nmethod = \"fedper:train.momentum=0|0.5\"\n"
            "[[claim]]\nthat = \"FedPer > FedAvg\"\nview = \"post\"\n");
  const auto words = [&](const std::string& out) {
    return std::vector<std::string>{
        "reproduce", "TOY-T1",    "--exhibits", path("x"), "--records", path(out + "-r"), "--out",
        path(out),   "--threads", "1",          "--quiet", "--json",    "--spread",       "cells"};
  };
  const auto one = tessera(words("one"));
  ASSERT_EQ(one.code, 0) << one.err;
  const auto many = play(2, words("many"));
  ASSERT_EQ(many.code, 0) << many.err;
  EXPECT_EQ(spoken(many), "");
  auto shown = nlohmann::json::parse(many.out, nullptr, false)[0];
  auto alone = nlohmann::json::parse(one.out, nullptr, false)[0];
  for (auto* exhibit : {&shown, &alone}) (*exhibit)["remarks"].erase(2);  // how long it took
  EXPECT_EQ(shown, alone);
  EXPECT_EQ(files("many"), files("one"));
  ASSERT_EQ(files("many-r"), files("one-r"));
  EXPECT_EQ(files("one-r").size(), 10u);  // 2 columns × (FedAvg 2 seeds, FedPer 2 settings + 1)
  for (const auto& name : files("one-r")) {
    auto ours = json("many-r/" + name), theirs = json("one-r/" + name);
    for (auto* record : {&ours, &theirs})
      record->erase("wall_seconds"), (*record)["spent"].erase("sim");
    EXPECT_EQ(ours, theirs) << name;
  }
}

TEST_F(Spread, WithoutItTheRefusalNamesIt) {
  const auto refused = play(2, compare_words("fedavg", "many"));
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(spoken(refused),
            "tessera: `tessera compare` runs in one process, but mpirun has started 2; start it "
            "without mpirun, or with --spread cells, by which each of them plays whole runs\n");
  const auto wrong = play(2, compare_words("fedavg", "many", {"--spread", "clients"}));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(error_lines(wrong), 1) << wrong.err;
}

}  // namespace
}  // namespace tessera::testing

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "playground.hpp"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// A directory with one exhibit on the playground's four clients.
class Reproduce : public Playground {
 protected:
  void SetUp() override {
    Playground::SetUp();
    fs::create_directory(path("x"));
    exhibit();
  }
  void exhibit(const std::string& more = "", int rounds = 4) {
    write("x/TOY-T1.toml",
          "id = \"TOY-T1\"\ntitle = \"A toy\"\narticle = \"TOY\"\nfigure = \"curves\"\nseeds = 2\n"
          "[base]\nrounds = " +
              std::to_string(rounds) +
              "\ndata = { set = \"npz\", partition = \"natural\", data_dir = \"" + path("data") +
              "\" }\nmodel.name = \"mlp100\"\ntrain = { lr = 0.1, batch = 8 }\n"
              "federation = { eval_every = 2, checkpoint_every = 1 }\n[tiny]\nrounds = 1\n"
              "[[column]]\nname = \"plain\"\n[[column]]\nname = \"half\"\ntrain.lr = 0.05\n"
              "[[row]]\nname = \"FedAvg\"\nmethod = \"fedavg\"\naccuracy = [50.5]\n"
              "[[row]]\nname = \"FedAvg tuned\"\nmethod = \"fedavg@post\"\n"
              "[[row]]\nname = \"FedPer\"\nmethod = \"fedper\"\n"
              "[[claim]]\nthat = \"FedPer > FedAvg\"\nview = \"post\"\n" +
              more);
  }
  std::vector<std::string> words(const std::vector<std::string>& more) const {
    std::vector<std::string> all{"reproduce", "--exhibits", path("x"), "--out", path("pages")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Finished reproduce(const std::vector<std::string>& more) const { return tessera(words(more)); }
  size_t records() const {
    size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(path("x")))
      count += entry.path().extension() == ".json" ? 1 : 0;
    return count;
  }
};

TEST_F(Reproduce, RunsCellsOnceAndShowsThem) {
  const auto done = reproduce({"TOY-T1", "--json", "--quiet"});
  ASSERT_EQ(done.code, 0) << done.err;
  auto result = nlohmann::json::parse(done.out)[0];
  // Two methods in two columns on two seeds: FedAvg's two rows are one run.
  EXPECT_EQ(result["cells"], 8);
  EXPECT_EQ(result["cells_done"], 8);
  EXPECT_EQ(result["cells_ran"], 8);
  EXPECT_EQ(records(), 8u);
  EXPECT_EQ(result["tables"][0]["rows"][0]["cells"][0]["published"], "50.5");
  EXPECT_EQ(result["claims"].size(), 2u);
  EXPECT_EQ(result["claims"][0]["view"], "post");
  const auto page = slurp(path("pages/small/TOY-T1.html"));
  EXPECT_THAT(page, HasSubstr("<svg"));
  EXPECT_THAT(page, HasSubstr("FedPer &gt; FedAvg"));
  EXPECT_THAT(slurp(path("pages/small/TOY-T1.md")), HasSubstr("| FedPer (post) |"));
  EXPECT_FALSE(exists("pages/small/cells")) << "runs go once their records are there";
  // The figure of the table is the mean of the records of its cells.
  double sum = 0;
  for (const auto& entry : fs::directory_iterator(path("x/results/TOY-T1/small"))) {
    const auto record = nlohmann::json::parse(slurp(entry.path()));
    EXPECT_LT(fs::file_size(entry.path()), 8000u);
    if (record["row"] == "FedPer" && record["column"] == "half")
      sum += record["curves"]["clients post"]["accuracy"].back().get<double>();
  }
  EXPECT_THAT(result["tables"][0]["rows"][2]["cells"][1]["ours"].get<std::string>(),
              ::testing::StartsWith(std::to_string(100 * sum / 2).substr(0, 4)));
  const auto again = reproduce({"TOY-T1", "--json", "--quiet"});
  result = nlohmann::json::parse(again.out)[0];
  EXPECT_EQ(result["cells_ran"], 0);
  EXPECT_EQ(result["cells_done"], 8);
  // Another seed is two methods in two columns more; other settings are other cells.
  result = nlohmann::json::parse(reproduce({"TOY-T1", "--seeds", "3", "--json", "--quiet"}).out)[0];
  EXPECT_EQ(result["cells_ran"], 4);
  exhibit("", 2);
  result = nlohmann::json::parse(reproduce({"TOY-T1", "--json", "--quiet"}).out)[0];
  EXPECT_EQ(result["cells_ran"], 8);
}

// The rows of fedper, by ditto, at seeds 7 and 8: runs of their own, and the page says so.
TEST_F(Reproduce, AnotherMethodAndOtherSeeds) {
  const auto done = reproduce(
      {"TOY-T1", "--only", "FedPer", "--swap", "fedper=ditto", "--first-seed", "7", "--quiet"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(records(), 4u);
  size_t found = 0;
  for (const auto& record : fs::recursive_directory_iterator(path("x/results")))
    if (record.is_regular_file()) {
      const auto it = nlohmann::json::parse(slurp(record.path().string()));
      EXPECT_THAT(it["seed"].get<int>(), ::testing::AnyOf(7, 8));
      EXPECT_THAT(it["settings"].dump(), HasSubstr("ditto"));
      ++found;
    }
  EXPECT_EQ(found, 4u);
  EXPECT_THAT(slurp(path("pages/small/TOY-T1.md")),
              HasSubstr("In rows of fedper, ditto was played."));
  const auto none = reproduce({"TOY-T1", "--swap", "fedpar=ditto"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("no row has method 'fedpar' (did you mean 'fedper'?)"));
  EXPECT_THAT(reproduce({"TOY-T1", "--swap", "fedper"}).err,
              HasSubstr("say which method by which"));
}

TEST_F(Reproduce, ListsSelectsAndWrites) {
  EXPECT_THAT(reproduce({"--list"}).out, HasSubstr("not run"));
  const auto only = reproduce({"TOY", "--only", "fedper", "--quiet"});
  ASSERT_EQ(only.code, 0) << only.err;
  EXPECT_EQ(records(), 4u);
  EXPECT_THAT(only.out, HasSubstr("FedPer (post)"));
  EXPECT_THAT(reproduce({"--list"}).out, HasSubstr("4 of 8 cells"));
  // One more row in one of two columns, on two seeds.
  ASSERT_EQ(reproduce({"TOY-T1", "--only", "fedavg", "--column", "half", "--quiet"}).code, 0);
  EXPECT_EQ(records(), 6u);
  EXPECT_THAT(slurp(path("pages/small/TOY-T1.md")), ::testing::Not(HasSubstr("plain")));
  const auto written = reproduce({"--write", path("results.md")});
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_THAT(written.err, HasSubstr("1 of 1 exhibits are not complete: TOY-T1"));
  EXPECT_THAT(slurp(path("results.md")), HasSubstr("## TOY-T1: A toy"));
  EXPECT_THAT(slurp(path("pages/small/index.html")), HasSubstr("./TOY-T1.html"));
  EXPECT_EQ(records(), 6u) << "from the records alone";
}

TEST_F(Reproduce, ContinuesAfterCtrlC) {
  exhibit("", kLongRounds);
  Process process(words({"TOY-T1", "--quiet"}), {});
  ASSERT_TRUE(process.wait_until([&] { return records() >= 1; }));
  process.signal(SIGINT);
  const auto stopped = process.wait();
  EXPECT_EQ(stopped.code, 130);
  EXPECT_THAT(stopped.err, HasSubstr("the same command continues"));
  const auto before = records();
  const auto done = reproduce({"TOY-T1", "--json", "--quiet"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(nlohmann::json::parse(done.out)[0]["cells_ran"], 8 - before);
}

TEST_F(Reproduce, WhatCannotRunIsLeftOut) {
  exhibit("[[row]]\nname = \"FedBN\"\nmethod = \"fedbn\"\n");  // mlp100 has no batch norms
  const auto done = reproduce({"TOY-T1", "--quiet"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("TOY-T1: left out: plain: "));
  fs::remove_all(path("data"));
  const auto missing = reproduce({"TOY-T1", "--size", "tiny", "--quiet"});
  EXPECT_EQ(missing.code, 0) << missing.err;
  EXPECT_THAT(missing.err, HasSubstr("left out: plain: "));
  EXPECT_THAT(slurp(path("pages/tiny/TOY-T1.html")), HasSubstr("left out: plain: "));
}

TEST_F(Reproduce, WrongWords) {
  const auto expect_wrong = [&](const std::vector<std::string>& more, const std::string& text) {
    const auto done = reproduce(more);
    EXPECT_EQ(done.code, 2);
    EXPECT_EQ(error_lines(done), 1) << done.err;
    EXPECT_THAT(done.err, HasSubstr(text));
  };
  expect_wrong({}, "name an exhibit");
  expect_wrong({"TOY-T2"}, "there is no exhibit 'TOY-T2'");
  expect_wrong({"TOY-T1", "--size", "huge"}, "huge");
  expect_wrong({"TOY-T1", "--column", "haf"}, "TOY-T1 has no column 'haf' (did you mean 'half'?)");
  expect_wrong({"TOY-T1", "--only", "fedpet"},
               "TOY-T1 has no row 'fedpet' (did you mean 'FedPer'?)");
  exhibit("[[claim]]\nthat = \"FedPer > Fedavg\"\n");
  expect_wrong({"TOY-T1"}, "/x/TOY-T1.toml:");
  exhibit("[[row]]\nname = \"P\"\nmethod = \"fedprox:nu=1\"\n");
  expect_wrong({"TOY-T1"}, "(did you mean 'mu'?)");
}

}  // namespace
}  // namespace tessera::testing

#include "run/paper_exhibit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/file.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* const kExhibitText = R"(id = "X-T1"
title = "A table"
article = "X"
metrics = ["accuracy", "micro"]
grid = "train.lr=0.5x,1x,2x"

[base]
rounds = 9
data = { set = "fmnist", partition = "dirichlet", clients = 5 }
train.lr = 0.2

[tiny]
rounds = 1
seeds = 1
grid = []
[small]
cost = "1 h"
[paper]
rounds = 90

[[column]]
name = "skewed"
x = 0.1
data.alpha = 0.1
[[column]]
name = "even"
data.alpha = 10.0
tiny.data.alpha = 5.0
paper.rounds = 99
[[column]]
name = "new"
who = "newcomers"
sizes = ["small", "paper"]
data.newcomers = 2

[[row]]
name = "A"
method = "fedprox:mu=0.5"
accuracy = [80.5, "81±2"]
[[row]]
method = "fedavg@post"
train.epochs = 3
in."even".train.epochs = 4
reference = true

[[claim]]
that = "A > fedavg@post"
view = "post"
columns = ["skewed"]
source = "C1"
)";

TEST(PaperExhibit, ReadsAWholeFile) {
  const auto exhibit = parse_exhibit(kExhibitText, "x.toml");
  ASSERT_TRUE(exhibit.ok()) << exhibit.status();
  EXPECT_EQ(exhibit->id, "X-T1");
  EXPECT_EQ(exhibit->paper, "X");
  EXPECT_EQ(exhibit->seeds_of("tiny"), 1);
  EXPECT_EQ(exhibit->seeds_of("small"), 3);
  EXPECT_TRUE(exhibit->grids_at.at("tiny").empty());
  EXPECT_THAT(exhibit->grids_at.at("paper"), ElementsAre("train.lr=0.5x,1x,2x"));
  EXPECT_EQ(exhibit->cost_at.at("small"), "1 h");
  ASSERT_EQ(exhibit->columns.size(), 3u);
  EXPECT_EQ(exhibit->columns[0].x, 0.1);
  EXPECT_FALSE(exhibit->columns[2].layer.has("tiny"));
  EXPECT_EQ(exhibit->columns[2].who, "newcomers");
  ASSERT_EQ(exhibit->rows.size(), 2u);
  EXPECT_THAT(exhibit->rows[0].published.at("accuracy"), ElementsAre("80.5", "81±2"));
  EXPECT_EQ(exhibit->rows[1].name, "fedavg@post");
  EXPECT_TRUE(exhibit->rows[1].reference);
  ASSERT_EQ(exhibit->claims.size(), 1u);
  EXPECT_EQ(exhibit->claims[0].left[0].row, "A");
  EXPECT_EQ(exhibit->claims[0].view, "post");
}

// Base, size, column, the column's size, row, the row's own settings: each over those before it.
TEST(PaperExhibit, LayersOfACell) {
  const auto exhibit = *parse_exhibit(kExhibitText, "x.toml");
  const auto cell = [&](const char* size, size_t column, size_t row,
                        std::vector<std::string> sets = {}) {
    return *exhibit_experiment(exhibit, size, exhibit.columns[column], exhibit.rows[row],
                               row == 0 ? "fedprox" : "fedavg", sets, 7, "/data");
  };
  EXPECT_EQ(cell("small", 0, 0).run.rounds, 9);
  EXPECT_EQ(cell("tiny", 0, 0).run.rounds, 1);
  EXPECT_EQ(cell("paper", 0, 0).run.rounds, 90);
  EXPECT_EQ(cell("paper", 1, 0).run.rounds, 99);
  EXPECT_EQ(cell("tiny", 1, 0).data.alpha, 5.0);
  EXPECT_EQ(cell("small", 1, 0).data.alpha, 10.0);
  EXPECT_EQ(cell("small", 0, 1).train.epochs, 3);
  EXPECT_EQ(cell("small", 1, 1).train.epochs, 4);
  EXPECT_EQ(cell("small", 0, 0, {"train.lr=0.4"}).train.lr, 0.4);
  EXPECT_EQ(cell("small", 0, 0).run.seed, 7);
  EXPECT_EQ(cell("small", 0, 0).data.data_dir, "/data");
  EXPECT_EQ(cell("small", 0, 0).method.name, "fedprox");
}

TEST(PaperExhibit, PublishedCurvesOfItsRowsAndColumns) {
  auto exhibit = *parse_exhibit(kExhibitText, "x.toml");
  const std::string text =
      "row,column,round,value\nA,even,0,0.1\nA,even,20,0.25\nB,even,0,1\nA,odd,0,1\n";
  ASSERT_TRUE(add_published_curves(bytes_of(text), "x.csv", exhibit).ok());
  ASSERT_EQ(exhibit.rows[0].curves.size(), 1u);
  EXPECT_THAT(exhibit.rows[0].curves.at("even"),
              ElementsAre(std::pair(0.0, 0.1), std::pair(20.0, 0.25)));
  EXPECT_TRUE(exhibit.rows[1].curves.empty());
  EXPECT_THAT(message(add_published_curves(bytes_of("row,column,round,value\nA,even,x,1\n"),
                                           "x.csv", exhibit)),
              HasSubstr("x.csv, line 2, column 'round'"));
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kExhibitText;
  return text.replace(text.find(from), from.size(), to);
}

TEST(PaperExhibit, ErrorsAreASentenceWithFileLineAndKey) {
  const auto problem = [](const std::string& text) {
    return message(parse_exhibit(text, "x.toml").status());
  };
  EXPECT_THAT(problem(replaced("title = ", "titel = ")),
              HasSubstr("x.toml:2:1: unknown key 'titel' (did you mean 'title'?)"));
  EXPECT_THAT(problem(replaced("title = \"A table\"\n", "")), HasSubstr("'title' is missing"));
  EXPECT_THAT(problem(replaced("rounds = 9\n", "rounds = [\n")), HasSubstr("not valid TOML"));
  EXPECT_THAT(problem(replaced("A > fedavg@post", "A > fedavg")),
              HasSubstr("there is no row 'fedavg'"));
  EXPECT_THAT(problem(replaced("A > fedavg@post", "A beats fedavg@post")),
              HasSubstr("must be of the form 'A > B'"));
  EXPECT_THAT(problem(replaced("view = \"post\"", "view = \"after\"")),
              HasSubstr("view = \"after\" is none of pre, post, global, own"));
  EXPECT_THAT(problem(replaced("columns = [\"skewed\"]", "columns = [\"skewd\"]")),
              HasSubstr("there is no column 'skewd' (did you mean 'skewed'?)"));
  EXPECT_THAT(problem(replaced("name = \"even\"", "name = \"skewed\"")),
              HasSubstr("'skewed' is there twice"));
  EXPECT_THAT(problem(replaced("seeds = 1\n", "seeds = \"one\"\n")),
              HasSubstr("x.toml:14:9: seeds must be a whole number from 1 to 1000"));
  EXPECT_THAT(problem(replaced("train.epochs = 3", "columns = [\"odd\"]")),
              HasSubstr("columns: there is no column 'odd'"));
  EXPECT_THAT(problem(replaced("in.\"even\".train.epochs = 4", "in = 4")),
              HasSubstr("in must be a table by column"));
  EXPECT_THAT(problem(replaced("in.\"even\"", "in.\"evn\"")),
              HasSubstr("in: there is no column 'evn' (did you mean 'even'?)"));
  EXPECT_THAT(problem(replaced("[80.5, \"81±2\"]", "[1, 2, 3, 4]")),
              HasSubstr("4 published figures for 3 columns"));
  // Keys of experiments are checked when a cell is made, at their place in the exhibit's file.
  const auto exhibit = *parse_exhibit(replaced("train.lr = 0.2", "train.lrr = 0.2"), "x.toml");
  EXPECT_THAT(message(exhibit_experiment(exhibit, "small", exhibit.columns[0], exhibit.rows[0],
                                         "fedprox", {}, 1, "")
                          .status()),
              HasSubstr("x.toml:10:"));
  const auto fine = *parse_exhibit(kExhibitText, "x.toml");
  EXPECT_THAT(message(exhibit_experiment(fine, "small", fine.columns[0], fine.rows[0], "fedprox",
                                         {"method.fedprox.nu=1"}, 1, "")
                          .status()),
              HasSubstr("x.toml:"));
}

TEST(PaperExhibit, AttacksHaveAnEffortForEverySize) {
  const std::string attack = std::string(kExhibitText) + R"([[attack]]
name = "g"
attack = "geiping"
by = "server"
samples = 4
after = 10
victims = 6
tiny = { victims = 1, seconds = 2 }
[[attack]]
attack = "membership"
)";
  const auto exhibit = *parse_exhibit(attack, "x.toml");
  ASSERT_EQ(exhibit.attacks.size(), 2u);
  const auto& first = exhibit.attacks[0];
  EXPECT_EQ(first.attack, "geiping");
  EXPECT_EQ(first.samples, 4);
  EXPECT_EQ(first.after, 10);
  EXPECT_EQ(first.at.at("tiny").victims, 1);
  EXPECT_EQ(first.at.at("tiny").seconds, 2);
  EXPECT_EQ(first.at.at("small").victims, 6);
  EXPECT_EQ(first.text("small"), "attack geiping by server, 4 samples, after 10, 6 victims");
  EXPECT_NE(first.text("small"), first.text("tiny"));
  EXPECT_EQ(exhibit.attacks[1].name, "membership");
  EXPECT_FALSE(exhibit.attacks[1].after);
  const auto problem = [&](const std::string& from, const std::string& to) {
    auto text = attack;
    text.replace(text.find(from), from.size(), to);
    return message(parse_exhibit(text, "x.toml").status());
  };
  EXPECT_THAT(problem("victims = 6", "victim = 6"),
              HasSubstr("unknown key 'victim' (did you mean 'victims'?)"));
  EXPECT_THAT(problem("by = \"server\"", "by = \"severs\""),
              HasSubstr("by = \"severs\" is none of server, client, user"));
  EXPECT_THAT(problem("name = \"g\"", "name = \"membership\""), HasSubstr("is there twice"));
  EXPECT_THAT(problem("seconds = 2", "rounds = 2"), HasSubstr("unknown key 'rounds'"));
}

TEST(PaperExhibit, PapersHaveATitleAndWhatHolds) {
  const testing::TempDir dir;
  const auto path = dir.file("papers.toml");
  const auto papers_of = [&](const std::string& text) {
    EXPECT_TRUE(write_file_atomic(path, bytes_of(text)).ok());
    return load_papers(path);
  };
  const auto papers = papers_of("[X]\ntitle = \"FedX\"\nholds = \"Little.\"\n");
  ASSERT_TRUE(papers.ok()) << papers.status();
  EXPECT_EQ(papers->at("X").title, "FedX");
  EXPECT_EQ(papers->at("X").holds, "Little.");
  EXPECT_THAT(message(papers_of("[X]\ntitle = \"FedX\"\n").status()),
              HasSubstr("papers.toml:1:1: 'holds' is missing"));
  EXPECT_THAT(message(papers_of("X = 3\n").status()),
              HasSubstr("papers.toml:1:1: X must be a table [TAG] of a paper"));
}

TEST(PaperClaim, FormsOfClaims) {
  const std::vector<std::string> rows{"A", "B", "C", "FedAvg*"}, columns{"x", "y, z"};
  const auto parsed = [&](const std::string& text) { return *parse_claim(text, rows, columns); };
  EXPECT_EQ(parsed("A > B").front().sign, 1);
  EXPECT_EQ(parsed("A < B").front().sign, -1);
  EXPECT_TRUE(parsed("A > all").front().all);
  EXPECT_EQ(parsed("A > B > FedAvg*").size(), 2u);
  EXPECT_EQ(parsed("A > B > FedAvg*")[1].text, "B > FedAvg*");
  EXPECT_EQ(parsed("A, B > C, FedAvg*").size(), 4u);
  const auto twice = parsed("A > 2 * B").front();
  EXPECT_EQ(twice.right[0].factor, 2);
  const auto gap = parsed("A[x] - A[y, z] < B[x] - B[y, z]");
  ASSERT_EQ(gap.size(), 1u);
  EXPECT_EQ(gap[0].left[1].factor, -1);
  EXPECT_EQ(gap[0].left[1].column, "y, z");
  EXPECT_EQ(gap[0].right[0].row, "B");
  EXPECT_EQ(parsed("A{std} < A{micro}").front().right[0].metric, "micro");
  EXPECT_EQ(parsed("A - B falls").front().kind, PaperClaim::Kind::kTrend);
  EXPECT_EQ(parsed("A - B falls").front().left.size(), 2u);
  EXPECT_FALSE(parse_claim("A > D", rows, columns).ok());
  EXPECT_FALSE(parse_claim("A[w] > B", rows, columns).ok());
  EXPECT_FALSE(parse_claim("A > B < C", rows, columns).ok());
  EXPECT_FALSE(parse_claim("A - B > all", rows, columns).ok());
}

}  // namespace
}  // namespace tessera

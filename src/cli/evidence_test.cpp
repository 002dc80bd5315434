#include "cli/evidence.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "cli/exhibit_page.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kSmallExhibit = R"(id = "X-T1"
title = "A table"
article = "X"
[base]
data = { set = "fmnist", partition = "dirichlet" }
[[column]]
name = "one"
x = 1
data.alpha = 1.0
[[column]]
name = "two"
x = 2
data.alpha = 2.0
[[column]]
name = "three"
x = 3
data.alpha = 3.0
[[row]]
name = "A"
method = "fedper"
accuracy = [80]
[[row]]
name = "B"
method = "local"
[[row]]
name = "C"
method = "ditto"
[[row]]
name = "R"
method = "fedavg@post"
reference = true
)";

/// A plan whose records are made by hand.
class EvidenceTest : public ::testing::Test {
 protected:
  void begin(const std::string& claims, int64_t seeds = 3) {
    auto parsed = parse_exhibit(kSmallExhibit + claims, "x.toml");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    exhibit_ = *std::move(parsed);
    auto plan = plan_exhibit(exhibit_, {.size = "small", .seeds = seeds});
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *std::move(plan);
  }
  CellRecord& cell(const std::string& row, const std::string& column, size_t seed,
                   size_t candidate = 0) {
    const auto& slot = plan_.slot(*exhibit_.row(row), *exhibit_.column(column));
    const auto& digest = slot.candidates.at(candidate).digests.at(seed);
    auto& out = records_[digest];
    out.digest = digest, out.headline = "post", out.parameters = 10, out.clients = 2;
    return out;
  }
  /// Accuracies (fractions) of three seeds in view post, last round 10.
  void give(const std::string& row, const std::string& column, std::vector<double> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      auto& curve = cell(row, column, i).curves["clients post"];
      curve.rounds = {5, 10}, curve.series["accuracy"] = {0.1, values[i]};
    }
  }
  Evidence evidence() const { return {plan_, records_}; }
  Verdict verdict(size_t i = 0) const { return evidence().verdicts().at(i); }
  Figure figure(const std::string& row, const std::string& metric) {
    const auto found = evidence().figure(plan_.slot(*exhibit_.row(row), *exhibit_.column("one")), 0,
                                         *metric_spec(metric, exhibit_, "test"), "");
    return found.value_or(Figure{std::nan(""), false});
  }

  PaperExhibit exhibit_;
  ExhibitPlan plan_;
  Records records_;
};

TEST_F(EvidenceTest, RowsThatShareRunsCountOnce) {
  const auto cells = [](const std::string& more) {
    const auto exhibit =
        parse_exhibit("grid = \"train.lr=0.5x,1x,2x\"\n" + kSmallExhibit + more, "x.toml");
    EXPECT_TRUE(exhibit.ok()) << exhibit.status();
    return cells_needed(*plan_exhibit(*exhibit, {.size = "small", .seeds = 3}), {});
  };
  // Four rows in three columns: three rates with the first seed, one of them with two more.
  EXPECT_EQ(cells(""), 12u * (3 + 2));
  EXPECT_EQ(cells("[[row]]\nname = \"C global\"\nmethod = \"ditto\"\nview = \"global\"\n"),
            12u * (3 + 2));
}

TEST_F(EvidenceTest, SeedsFollowTheFirst) {
  auto parsed = parse_exhibit("first_seed = 11\n" + kSmallExhibit, "x.toml");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  auto plan = plan_exhibit(*parsed, {.size = "small", .seeds = 2});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->seeds, (std::vector<int64_t>{11, 12}));
  const auto& slot = plan->slot(*parsed->row("A"), *parsed->column("one"));
  EXPECT_EQ(slot.candidates.front().by_seed.back().run.seed, 12);
}

// Differences 1, 2, 3 points: mean 2, half the interval 4.30265 / sqrt(3) = 2.484.
TEST_F(EvidenceTest, IntervalAcrossZeroIsInconclusive) {
  begin("[[claim]]\nthat = \"A > B\"\ncolumns = [\"one\"]\n");
  give("A", "one", {0.81, 0.82, 0.83});
  EXPECT_EQ(verdict().state, Verdict::State::kOpen);
  give("B", "one", {0.80, 0.80, 0.80});
  const auto judged = verdict();
  EXPECT_EQ(judged.state, Verdict::State::kInconclusive);
  EXPECT_NEAR(judged.test.difference, 2, 1e-9);
  EXPECT_NEAR(judged.test.low, 2 - 4.30265 / std::sqrt(3.0), 1e-4);
  EXPECT_EQ(judged.test.needed, 4);
  EXPECT_EQ(judged.pairs, 3);
  EXPECT_EQ(judged.view, "post");
}

TEST_F(EvidenceTest, ARowMayBeInSomeColumnsOnly) {
  begin(
      "[[row]]\nname = \"D\"\nmethod = \"majority\"\ncolumns = [\"two\"]\n"
      "[[claim]]\nthat = \"A > D\"\nview = \"post\"\n");
  EXPECT_EQ(cells_needed(plan_, records_), 3 * (4 * 3 + 1));
  EXPECT_TRUE(plan_.slot(*exhibit_.row("D"), *exhibit_.column("one")).candidates.empty());
  for (const char* column : {"one", "two"}) give("A", column, {0.81, 0.82, 0.83});
  give("D", "two", {0.5, 0.5, 0.5});
  const auto judged = evidence().verdicts();
  ASSERT_EQ(judged.size(), 1u);  // in column one there is no D to be above
  EXPECT_EQ(judged.front().column, "two");
  EXPECT_EQ(judged.front().state, Verdict::State::kPass);
}

TEST_F(EvidenceTest, AClaimAboutARowOfAnotherSizeIsNotJudgedAtThisOne) {
  begin(
      "[[row]]\nname = \"D\"\nmethod = \"majority\"\nsizes = [\"paper\"]\n"
      "[[claim]]\nthat = \"A > D > B\"\nview = \"post\"\ncolumns = [\"one\"]\n"
      "[[claim]]\nthat = \"D rises\"\nview = \"post\"\n"
      "[[claim]]\nthat = \"A > B\"\nview = \"post\"\ncolumns = [\"one\"]\n");
  const auto judged = evidence().verdicts();
  ASSERT_EQ(judged.size(), 1u);  // not run yet, but it will be
  EXPECT_EQ(judged.front().claim->left.front().row, "A");
  EXPECT_EQ(judged.front().state, Verdict::State::kOpen);
}

TEST_F(EvidenceTest, WhatAMethodShowedIsAFigure) {
  begin("");
  auto& one = cell("A", "one", 0);
  one.matrices = {{"threshold", "", 5, {"size", "p"}, {"value"}, {{7}, {0.5}}},
                  {"threshold", "", 10, {"size", "p"}, {"value"}, {{3}, {0.5}}},
                  {"mixture", "", 10, {"x", "y"}, {"own", "other"}, {{0.2, 0.8}, {NAN, 0.4}}},
                  // Clients 0 and 1 together, 2 alone: inside (0.6 + 0.4) / 2, between 0.1.
                  {"attention", "", 10, {}, {}, {{9, 0.6, 0.1}, {0.4, 9, 0.1}, {0.1, 0.1, 9}}}};
  EXPECT_EQ(figure("A", "shown@size").value, 3);
  EXPECT_EQ(figure("A", "shown_first@size").value, 7);
  EXPECT_NEAR(figure("A", "shown@own").value, 0.2, 1e-12);
  EXPECT_NEAR(figure("A", "shown@other").value, 0.6, 1e-12);
  EXPECT_TRUE(std::isnan(figure("A", "shown@nothing").value));
  EXPECT_NEAR(figure("A", "within@2,1").value, 5, 1e-12);
  EXPECT_TRUE(std::isnan(figure("A", "within@2,2").value));  // four clients, three are there
  EXPECT_THAT(message(metric_spec("within@2,x", exhibit_, "here").status()),
              HasSubstr("here: metric 'within@2,x': '@2,x' is not of the form @4,3"));
  EXPECT_THAT(message(metric_spec("shown", exhibit_, "here").status()),
              HasSubstr("needs a target"));
}

TEST_F(EvidenceTest, WhatAnAttackGotIsAFigure) {
  begin("[[attack]]\nname = \"m\"\nattack = \"membership\"\nby = \"user\"\n");
  auto& one = cell("A", "one", 0);
  one.attacks["m"].figures = {
      {"AUC, loss", {0.6, 0.52}}, {"AUC, shadow models", {0.7, 0.5}}, {"PSNR, mean", {20, 11}}};
  one.epsilon = 3.5;
  EXPECT_EQ(figure("A", "got@m: AUC, loss").value, 0.6);
  EXPECT_EQ(figure("A", "guess@m: AUC, loss").value, 0.52);
  EXPECT_EQ(figure("A", "got@m: AUC").value, 0.7);
  EXPECT_EQ(figure("A", "guess@m: AUC").value, 0.5);
  EXPECT_EQ(figure("A", "got@m: PSNR, mean").value, 20);
  EXPECT_EQ(figure("A", "epsilon").value, 3.5);
  EXPECT_TRUE(std::isnan(figure("A", "got@m: SSIM, mean").value));
  cell("A", "one", 0).attacks.clear();
  EXPECT_TRUE(std::isnan(figure("A", "got@m: AUC").value));
  EXPECT_THAT(message(metric_spec("got@n: AUC", exhibit_, "here").status()),
              HasSubstr("here: metric 'got@n: AUC': there is no [[attack]] of that name"));
  EXPECT_THAT(message(metric_spec("got@m", exhibit_, "here").status()),
              HasSubstr("is not of the form @NAME: FIGURE"));
}

TEST_F(EvidenceTest, AttacksArePartOfACell) {
  begin("");
  const auto plain = plan_.slots.front().candidates.front().digests.front();
  begin("[[attack]]\nattack = \"membership\"\n");
  EXPECT_NE(plan_.slots.front().candidates.front().digests.front(), plain);
  const auto problem = [](const std::string& more) {
    const auto exhibit = *parse_exhibit(kSmallExhibit + more, "x.toml");
    return message(plan_exhibit(exhibit, {}).status());
  };
  EXPECT_THAT(problem("[[attack]]\nattack = \"gepping\"\n"),
              HasSubstr("unknown attack 'gepping' (did you mean 'geiping'?)"));
  EXPECT_THAT(problem("[[attack]]\nattack = \"geiping\"\nby = \"user\"\n"),
              HasSubstr("attack 'geiping' is not for by = \"user\""));
}

TEST_F(EvidenceTest, RatiosHaveAMeanOverTheColumnsOfASet) {
  begin("", 2);
  exhibit_.metrics = {"ratio@B"};
  for (const char* column : {"one", "two", "three"}) give("B", column, {0.5, 0.4});
  give("A", "one", {0.5, 0.5}), give("A", "two", {0.6, 0.5}), give("A", "three", {0.7, 0.5});
  give("C", "one", {0.5, 0.5});
  const auto table = reproduced(evidence(), {}).tables.at(0);
  ASSERT_EQ(table.columns.size(), 4u);
  EXPECT_EQ(table.columns[3], "mean over fmnist");
  // Seed 1: (100 + 120 + 140) / 3 = 120; seed 2: 125 in every column. Their mean and deviation.
  EXPECT_EQ(table.rows[0].cells[3].ours, "122.5 ± 3.5");
  EXPECT_EQ(table.rows[2].cells[3].ours, "") << "not all columns have run";
}

TEST_F(EvidenceTest, ThePageShowsPicturesAndWhatWasNotTried) {
  begin("[[attack]]\nattack = \"geiping\"\n", 1);
  auto& one = cell("A", "one", 0);
  one.attacks["geiping"].pictures = {
      {"data:image/png;base64,AAAA", "data:image/png;base64,BBBB", "9 dB"},
      {"javascript:x", "data:image/png;base64,CCCC", "8 dB"}};
  cell("B", "one", 0).attacks["geiping"].skipped = "nothing travels";
  const auto page = reproduced_page(reproduced(evidence(), {}));
  EXPECT_THAT(page, HasSubstr("src=\"data:image/png;base64,BBBB\""));
  EXPECT_EQ(page.find("javascript:x"), std::string::npos) << "nothing but pictures";
  EXPECT_EQ(page.find("CCCC"), std::string::npos);
  EXPECT_THAT(page, HasSubstr("geiping not tried: nothing travels (B, one)"));
}

TEST_F(EvidenceTest, PassAndFailAreSidesOfZero) {
  begin(
      "[[claim]]\nthat = \"A > B\"\ncolumns = [\"one\"]\n"
      "[[claim]]\nthat = \"A < B\"\ncolumns = [\"one\"]\n");
  give("A", "one", {0.91, 0.92, 0.93}), give("B", "one", {0.80, 0.80, 0.80});
  EXPECT_EQ(verdict(0).state, Verdict::State::kPass);
  EXPECT_EQ(verdict(1).state, Verdict::State::kFail);
}

TEST_F(EvidenceTest, AllIsTheBestOtherThatIsNoReference) {
  begin("[[claim]]\nthat = \"A > all\"\ncolumns = [\"one\"]\n");
  give("A", "one", {0.90, 0.91, 0.92}), give("B", "one", {0.5, 0.5, 0.5});
  give("C", "one", {0.60, 0.61, 0.62}), give("R", "one", {0.99, 0.99, 0.99});
  EXPECT_EQ(verdict().against, "C");
  EXPECT_NEAR(verdict().test.difference, 30, 1e-9);
  EXPECT_EQ(verdict().state, Verdict::State::kPass);
}

TEST_F(EvidenceTest, AllOfAReferenceIsEverybody) {
  const std::string other = "[[row]]\nname = \"M\"\nmethod = \"mosaic\"\nreference = true\n";
  begin(other + "[[claim]]\nthat = \"M > all\"\ncolumns = [\"one\"]\n");
  give("A", "one", {0.7, 0.7, 0.7}), give("R", "one", {0.80, 0.81, 0.82});
  give("M", "one", {0.81, 0.83, 0.85});
  EXPECT_EQ(verdict().against, "R");
  EXPECT_NEAR(verdict().test.difference, 2, 1e-9);
}

// Per seed the slopes are 1, 2 and 3 points a column.
TEST_F(EvidenceTest, TrendsAreSlopesOverTheColumns) {
  begin("[[claim]]\nthat = \"A rises\"\n[[claim]]\nthat = \"A - B falls\"\n");
  give("A", "one", {0.50, 0.50, 0.50}), give("A", "two", {0.51, 0.52, 0.53});
  give("A", "three", {0.52, 0.54, 0.56});
  for (const char* column : {"one", "two", "three"}) give("B", column, {0.3, 0.3, 0.3});
  EXPECT_NEAR(verdict(0).test.difference, 2, 1e-9);
  EXPECT_EQ(verdict(0).state, Verdict::State::kInconclusive);
  EXPECT_NEAR(verdict(1).test.difference, 2, 1e-9);
  records_.erase(plan_.slot(*exhibit_.row("A"), *exhibit_.column("two")).candidates[0].digests[0]);
  EXPECT_EQ(verdict(0).pairs, 2) << "a seed with a hole says nothing of the trend";
}

TEST_F(EvidenceTest, ATrendIsOverTheColumnsThatItsRowIsIn) {
  begin(
      "[[row]]\nname = \"D\"\nmethod = \"pfedme\"\ncolumns = [\"two\", \"three\"]\n"
      "[[row]]\nname = \"E\"\nmethod = \"fedbn\"\ncolumns = [\"two\"]\n"
      "[[claim]]\nthat = \"D falls\"\n[[claim]]\nthat = \"E falls\"\n");
  give("D", "two", {0.50, 0.52, 0.54}), give("D", "three", {0.47, 0.48, 0.49});
  const auto judged = evidence().verdicts();
  ASSERT_EQ(judged.size(), 1u);  // in one column there is no trend
  EXPECT_EQ(judged[0].claim->left.front().row, "D");
  EXPECT_NEAR(judged[0].test.difference, -4, 1e-9);   // of −3, −4 and −5
  EXPECT_EQ(judged[0].state, Verdict::State::kPass);  // t = 4 · √3 > 4.30
}

TEST_F(EvidenceTest, LinearClaimsAndFactors) {
  begin(
      "[[claim]]\nthat = \"A > 2 * B\"\ncolumns = [\"one\"]\n"
      "[[claim]]\nthat = \"A[one] - A[two] < B[one] - B[two]\"\n");
  give("A", "one", {0.9, 0.9, 0.9}), give("A", "two", {0.8, 0.8, 0.8});
  give("B", "one", {0.4, 0.4, 0.4}), give("B", "two", {0.2, 0.2, 0.2});
  EXPECT_NEAR(verdict(0).test.difference, 10, 1e-9);
  ASSERT_EQ(evidence().verdicts().size(), 2u) << "columns are named: one verdict";
  EXPECT_NEAR(verdict(1).test.difference, 10 - 20, 1e-9);
  EXPECT_EQ(verdict(1).state, Verdict::State::kPass);
}

TEST_F(EvidenceTest, OneSeedIsPairedOverClients) {
  begin("[[claim]]\nthat = \"A > B\"\ncolumns = [\"one\"]\n", 1);
  give("A", "one", {0.5}), give("B", "one", {0.4});
  EXPECT_EQ(verdict().state, Verdict::State::kInconclusive) << "one pair decides nothing";
  for (const char* row : {"A", "B"}) cell(row, "one", 0).names = {"0", "1", "2"};
  cell("A", "one", 0).per_client["post"] = {0.51, 0.52, 0.53};
  cell("B", "one", 0).per_client["post"] = {0.40, 0.40, 0.40};
  EXPECT_TRUE(verdict().by_clients);
  EXPECT_EQ(verdict().pairs, 3);
  EXPECT_EQ(verdict().state, Verdict::State::kPass);
  EXPECT_EQ(reproduced(evidence(), {}).claims[0].pairs, "3 clients, one seed");
}

TEST_F(EvidenceTest, FiguresOfCurves) {
  begin("");
  auto& record = cell("A", "one", 0);
  auto& curve = record.curves["clients post"];
  curve.rounds = {1, 2, 3, 4, 5, 6};
  curve.series["accuracy"] = {0.1, 0.2, 0.5, 0.6, 0.55, 0.58};
  curve.series["val"] = {0.0, 0.1, 0.9, 0.2, 0.9, 0.1};
  EXPECT_NEAR(figure("A", "accuracy").value, 58, 1e-9);
  EXPECT_NEAR(figure("A", "accuracy/best").value, 50, 1e-9) << "the earliest of equals";
  EXPECT_NEAR(figure("A", "accuracy/peak").value, 60, 1e-9);
  EXPECT_NEAR(figure("A", "accuracy/last5").value, 100 * (0.2 + 0.5 + 0.6 + 0.55 + 0.58) / 5, 1e-9);
  EXPECT_NEAR(figure("A", "accuracy/wobble2").value, 1.5, 1e-9) << "of 55 and 58";
  record.spent.rounds = curve.rounds;
  record.spent.series["down"] = {0, 0, 800, 0, 0, 1600};
  record.spent.series["up"] = {0, 0, 800, 0, 0, 1600};
  record.spent.series["sim"] = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(figure("A", "rounds_to@50").value, 3);
  EXPECT_EQ(figure("A", "time_to@50").value, 3);
  // 1600 bytes by 2 clients of 10 numbers of 4 bytes, there and back.
  EXPECT_EQ(figure("A", "traffic_to@50").value, 10);
  EXPECT_EQ(figure("A", "overhead").value, 20);
  EXPECT_TRUE(figure("A", "rounds_to@70").bound);
  EXPECT_EQ(figure("A", "rounds_to@70").value, 6);
  give("B", "one", {0.625});
  EXPECT_EQ(figure("A", "rounds_to@0.96*B").value, 4);
  EXPECT_NEAR(figure("A", "ratio@B").value, 92.8, 1e-9);
  EXPECT_TRUE(std::isnan(figure("A", "micro").value));
  record.failed = "diverged";
  EXPECT_TRUE(std::isnan(figure("A", "accuracy").value));
}

TEST_F(EvidenceTest, WrongMetricsAndViewsAreSaid) {
  const auto problem = [](const std::string& more) {
    const auto exhibit = *parse_exhibit(kSmallExhibit + more, "x.toml");
    return message(plan_exhibit(exhibit, {}).status());
  };
  EXPECT_THAT(problem("[[claim]]\nthat = \"A > B\"\nmetric = \"acuracy\"\n"),
              HasSubstr("unknown metric 'acuracy' (did you mean 'accuracy'?)"));
  EXPECT_THAT(problem("[[claim]]\nthat = \"A > B\"\nmetric = \"rounds_to\"\n"),
              HasSubstr("needs a target"));
  EXPECT_THAT(problem("[[claim]]\nthat = \"A > B\"\nmetric = \"rounds_to@0.9*D\"\n"),
              HasSubstr("there is no row 'D'"));
  EXPECT_THAT(problem("[[row]]\nname = \"F\"\nmethod = \"fedavg\"\n[[claim]]\nthat = \"A > F\"\n"),
              HasSubstr("compares view post with view pre of 'F'; give the claim a view"));
  EXPECT_EQ(problem("[[row]]\nname = \"F\"\nmethod = \"fedavg\"\n"
                    "[[claim]]\nthat = \"A > F\"\nview = \"own\"\n"),
            "");
}

TEST_F(EvidenceTest, AGridIsChosenByValidationInTheRowsView) {
  auto parsed = parse_exhibit("grid = \"train.lr=0.5x,1x,2x\"\n" + kSmallExhibit, "x.toml");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  exhibit_ = *std::move(parsed);
  plan_ = *plan_exhibit(exhibit_, {.size = "small", .seeds = 2});
  const auto& slot = plan_.slot(*exhibit_.row("A"), *exhibit_.column("one"));
  ASSERT_EQ(slot.candidates.size(), 3u);
  // Twelve rows and columns: three on the first seed, and one more each.
  EXPECT_EQ(cells_needed(plan_, records_), 12u * (3 + 1));
  const double val[] = {0.3, 0.4, 0.5};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(evidence().chosen(slot), nullptr);
    auto& curve = cell("A", "one", 0, i).curves["clients post"];
    curve.rounds = {1}, curve.series["accuracy"] = {0.9}, curve.series["val"] = {val[i]};
    cell("A", "one", 0, i).curves["clients pre"].series["val"] = {1 - val[i]};
  }
  EXPECT_EQ(evidence().chosen(slot), &slot.candidates[2]);
  EXPECT_THAT(reproduced(evidence(), {}).remarks[0], HasSubstr("the edge of the grid"));
  EXPECT_THAT(reproduced(evidence(), {}).remarks[0], HasSubstr("(chosen on validation data)"));
  cell("A", "one", 0, 2).failed = "diverged";
  EXPECT_EQ(evidence().chosen(slot), &slot.candidates[1]);
}

TEST_F(EvidenceTest, AGridWithoutAnyEffectIsSaid) {
  auto parsed = parse_exhibit("grid = \"train.lr=0.5x,1x\"\n" + kSmallExhibit, "x.toml");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  exhibit_ = *std::move(parsed);
  plan_ = *plan_exhibit(exhibit_, {.size = "small", .seeds = 2});
  for (const size_t i : {0, 1}) {
    auto& curve = cell("A", "one", 0, i).curves["clients post"];
    curve.rounds = {1}, curve.series["accuracy"] = {0.9}, curve.series["val"] = {0.8};
  }
  EXPECT_THAT(reproduced(evidence(), {}).remarks[0], HasSubstr("nothing was chosen"));
}

// A row that shows another view of the same runs takes no time of its own.
TEST_F(EvidenceTest, RunTimeCountsARunOnce) {
  begin("[[row]]\nname = \"A before\"\nmethod = \"fedper@pre\"\n");
  give("A", "one", {0.8, 0.8, 0.8}), give("B", "one", {0.8, 0.8});
  ASSERT_EQ(&cell("A", "one", 0), &cell("A before", "one", 0));
  for (auto& [digest, record] : records_) record.wall_seconds = 10;
  EXPECT_EQ(seconds_spent(plan_, records_), 50);
  EXPECT_THAT(reproduced_markdown(reproduced(evidence(), {}), 2), HasSubstr("50 s of run time"));
}

TEST_F(EvidenceTest, ThePageHasOursAndPublished) {
  begin("[[claim]]\nthat = \"A > B\"\ncolumns = [\"one\"]\n");
  give("A", "one", {0.81, 0.82, 0.83}), give("B", "one", {0.80, 0.80});
  const auto shown = reproduced(evidence(), {"left out: two"});
  ASSERT_EQ(shown.tables.size(), 1u);
  EXPECT_EQ(shown.tables[0].rows[0].cells[0].ours, "82.0 ± 1.0");
  EXPECT_EQ(shown.tables[0].rows[0].cells[0].published, "80");
  EXPECT_EQ(shown.tables[0].rows[1].cells[0].ours, "80.0 ± 0.0 (2 of 3)");
  EXPECT_EQ(shown.tables[0].rows[0].cells[1].ours, "");
  const auto page = reproduced_page(shown), text = reproduced_markdown(shown, 2);
  for (const auto& whole : {page, text}) {
    EXPECT_THAT(whole, HasSubstr("82.0 ± 1.0"));
    EXPECT_THAT(whole, HasSubstr("INCONCLUSIVE"));
    EXPECT_THAT(whole, HasSubstr("left out: two"));
  }
  EXPECT_EQ(page.find("http"), page.find("http://www.w3.org")) << "nothing from the network";
  EXPECT_EQ(cells_done(plan_, records_), 5u);
  const std::vector<ReproducedPaper> papers{{"X", "FedX", "Little."}};
  EXPECT_THAT(reproduced_document(papers, {shown}),
              HasSubstr("| FedX | Little. | 0 | 0 | 1 | 0 |"));
  auto open = shown;
  open.id = "X-T2", open.state = "not run";
  for (auto& row : open.tables[0].rows)
    for (auto& one : row.cells) one.ours.clear();
  const auto both = reproduced_document(papers, {shown, open});
  EXPECT_THAT(both, HasSubstr("## X-T1"));
  EXPECT_THAT(both, HasSubstr("| X-T2 | A table | not run |"));
  EXPECT_EQ(both.find("## X-T2"), std::string::npos) << "no table of dashes";
  auto asked = shown;
  asked.claims.front().ours = true;
  EXPECT_THAT(reproduced_document(papers, {asked}),
              HasSubstr("| FedX | Little. | – | – | – | – |"));
}

TEST_F(EvidenceTest, ATableLeavesOutRowsThatWillNeverHaveAFigure) {
  begin("");
  exhibit_.metrics = {"accuracy", "accuracy/best"};
  give("A", "one", {0.81, 0.82, 0.83}), give("B", "two", {0.6, 0.6, 0.6});
  for (size_t seed : {0, 1, 2})
    cell("B", "two", seed).curves["clients post"].series["val"] = {1, 0};
  const auto shown = reproduced(evidence(), {});
  ASSERT_EQ(shown.tables.size(), 2u);
  EXPECT_EQ(shown.tables[0].rows.size(), 4u);
  std::vector<std::string> names;
  for (const auto& row : shown.tables[1].rows) names.push_back(row.name);
  // A was never judged on validation data; C and R have not run.
  EXPECT_THAT(names, ElementsAre("B (post)", "C (post)", "R (post)"));
  EXPECT_EQ(shown.tables[1].rows[0].cells[1].ours, "10.0 ± 0.0");
}

TEST_F(EvidenceTest, FiguresOfOneColumnStandSideBySide) {
  begin("");
  exhibit_.metrics = {"accuracy", "accuracy/last5"};
  give("A", "one", {0.81, 0.82, 0.83});
  EXPECT_EQ(reproduced(evidence(), {}).tables.size(), 2u) << "three columns each";
  plan_ = *plan_exhibit(exhibit_, {.size = "small", .seeds = 3, .columns = {"one"}});
  const auto shown = reproduced(evidence(), {});
  ASSERT_EQ(shown.tables.size(), 1u);
  const auto& table = shown.tables[0];
  EXPECT_EQ(table.title, "one");
  EXPECT_THAT(table.columns,
              ElementsAre("accuracy, %", "accuracy, mean of the last five evaluations, %"));
  ASSERT_EQ(table.rows.size(), 4u);
  EXPECT_EQ(table.rows[0].cells[0].ours, "82.0 ± 1.0");
  EXPECT_EQ(table.rows[0].cells[0].published, "80");
  EXPECT_EQ(table.rows[0].cells[1].ours, "46.0 ± 0.5");  // of 10 and 81, 82 or 83
  EXPECT_EQ(table.rows[0].cells[1].published, "");
}

TEST(CellRecordTest, IsReadBackAsItWas) {
  CellRecord record;
  record.digest = "d", record.settings = {"rounds = 3"}, record.seed = 4, record.exhibit = "X-T1";
  record.size = "small", record.row = "A", record.column = "é", record.headline = "pre";
  record.curves["clients pre"] = {{1, 2}, {{"accuracy", {0.5, kAbsent}}}};
  record.per_client["pre"] = {0.25, 0.75};
  record.names = {"0", "1"};
  record.matrices.push_back({"attention", "Attention", 2, {"a"}, {"b"}, {{0.5}}});
  record.epsilon = 2.5;
  record.attacks["g"] = {{{"PSNR, mean", {20.5, kAbsent}}}, "", "4 clients", {{"a", "b", "c"}}};
  record.attacks["n"].skipped = "no pictures";
  const std::string path = ::testing::TempDir() + "/record.json";
  std::ofstream(path) << record.json().dump();
  const auto read = read_record(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->json(), record.json());
  EXPECT_EQ(read->curves.at("clients pre").series.at("accuracy")[0], 0.5);
  EXPECT_TRUE(std::isnan(read->curves.at("clients pre").series.at("accuracy")[1]));
  EXPECT_EQ(read->epsilon, 2.5);
  EXPECT_EQ(read->attacks.at("g").figures.at("PSNR, mean").got, 20.5);
  EXPECT_TRUE(std::isnan(read->attacks.at("g").figures.at("PSNR, mean").guess));
  EXPECT_EQ(read->attacks.at("g").pictures.at(0).made, "b");
  EXPECT_EQ(read->attacks.at("n").skipped, "no pictures");
  std::ofstream(path) << "{\"version\": 1}";
  EXPECT_THAT(message(read_record(path).status()), HasSubstr("is not a record of this program"));
  std::ofstream(path) << "{";
  EXPECT_THAT(message(read_record(path).status()), HasSubstr("is not JSON"));
}

TEST(CellRecordTest, TheDigestIsOfSettingsAndSeed) {
  const auto digest = [](const std::string& more, int64_t seed, const std::string& dir) {
    Overrides overrides;
    overrides.seed = seed, overrides.data_dir = dir;
    return record_digest(
        *parse_experiment("name = \"a\"\n[method]\nname = \"fedprox\"\n" + more, "e", overrides));
  };
  const auto one = digest("mu = 0.5\n", 1, "/a");
  EXPECT_EQ(digest("mu = 0.5\n", 1, "/b"), one) << "where the data lie is no setting";
  EXPECT_NE(digest("mu = 0.5\n", 2, "/a"), one);
  EXPECT_NE(digest("mu = 0.25\n", 1, "/a"), one);
  EXPECT_EQ(digest("mu = 0.5\n[eval]\nmetric = \"auroc\"\n", 1, "/a"), one);
}

}  // namespace
}  // namespace tessera

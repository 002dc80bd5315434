#include "run/history.hpp"

#include <cmath>
#include <functional>

#include "run/history_testing.hpp"

namespace tessera {
namespace {

using testing::evaluation;
using testing::FailsWith;
using testing::Histories;
using testing::round_report;
using testing::Succeeds;
using testing::with_problems;

TEST_F(Histories, BeginWithFactsClientsAndLabels) {
  auto history = make();
  EXPECT_EQ(ask("SELECT value FROM meta WHERE key = 'seed'"), "7;");
  EXPECT_EQ(ask("SELECT * FROM clients ORDER BY id"), "0 a 0 3 1 1;1 b 0 1 0 2;2 late 1 1 0 1;");
  EXPECT_EQ(ask("SELECT part, label, n FROM labels WHERE client = 0 ORDER BY part, label"),
            "test 0 1;train 0 1;train 1 2;val 2 1;");
}

TEST_F(Histories, AreReadableWhileTheyGrow) {
  auto history = make();
  auto reader = Database::open(path_, Database::Mode::kReadOnly);
  ASSERT_THAT(reader, Succeeds());
  for (int64_t round = 1; round <= 3; ++round) {
    ASSERT_THAT(history.append_round(round_report(round)), Succeeds());
    auto count = reader->prepare("SELECT count(*) FROM rounds");
    ASSERT_TRUE(*count->step());
    EXPECT_EQ(count->integer(0), round);
  }
  // A reader in the middle of its reading does not hold the writer up.
  auto slow = reader->prepare("SELECT round FROM rounds");
  ASSERT_TRUE(*slow->step());
  EXPECT_THAT(history.append_evaluation(evaluation(3), 0), Succeeds());
}

TEST_F(Histories, SummariesAreOverTheClientsThatHaveSamples) {
  auto history = make();
  fill(history, 4);
  const auto pre = history.evals("clients", "pre", "test");
  ASSERT_THAT(pre, Succeeds());
  ASSERT_EQ(pre->size(), 2U);
  EXPECT_EQ((*pre)[0].round, 2);
  EXPECT_EQ((*pre)[1].round, 4);
  const auto& s = (*pre)[1].summary;
  EXPECT_DOUBLE_EQ(s.mean, (0.25 + 1) / 2);
  EXPECT_DOUBLE_EQ(s.std, 0.375);
  EXPECT_DOUBLE_EQ(s.micro, 0.5);
  EXPECT_DOUBLE_EQ(s.min, 0.25);
  EXPECT_DOUBLE_EQ(s.max, 1);
  EXPECT_DOUBLE_EQ(s.loss, (0.125 + 0.25) / 2);
  EXPECT_DOUBLE_EQ(s.precision_macro, 0.5);
  EXPECT_DOUBLE_EQ(s.f1_macro, 0.25);
  EXPECT_DOUBLE_EQ(s.f1_remap, 0.75);
  EXPECT_DOUBLE_EQ(s.balanced_accuracy, 0.625);
  EXPECT_DOUBLE_EQ(s.auroc, 0.5 + 0.0625 * 1.5);
  EXPECT_DOUBLE_EQ(s.ece, 0.375);
  EXPECT_DOUBLE_EQ(history.evals("clients", "pre", "val")->at(0).summary.mean, 1);
  EXPECT_TRUE(history.evals("clients", "post", "val")->empty());
  EXPECT_DOUBLE_EQ(history.evals("clients", "global", "test")->at(0).summary.mean, 0.5);
  EXPECT_DOUBLE_EQ(history.evals("newcomers", "post", "test")->at(0).summary.mean, 1);
  EXPECT_TRUE(history.evals("newcomers", "global", "test")->empty());
}

TEST_F(Histories, ConfusionsAreKeptWithoutZerosAndSummed) {
  auto history = make();
  fill(history, 2);
  EXPECT_EQ(ask("SELECT * FROM confusions WHERE view = 'pre'"),
            "2 0 pre 0 0 1;2 0 pre 0 1 2;2 0 pre 2 0 1;2 1 pre 0 0 1;2 1 pre 1 1 1;");
  const auto sum = history.confusion("clients", "pre", 2);
  ASSERT_THAT(sum, Succeeds());
  std::string text;
  for (const auto& row : *sum) text += fmt::format("{} {} {};", row.truth, row.predicted, row.n);
  EXPECT_EQ(text, "0 0 2;0 1 2;1 1 1;2 0 1;");
  EXPECT_TRUE(history.confusion("newcomers", "pre", 2)->empty());
  EXPECT_TRUE(history.confusion("clients", "pre", 1)->empty());
}

TEST_F(Histories, MetricsOfEachClientAreReadBack) {
  auto history = make();
  fill(history, 2);
  const auto clients = history.client_metrics("clients", "post", "test", 2);
  ASSERT_THAT(clients, Succeeds());
  ASSERT_EQ(clients->size(), 2U);
  EXPECT_EQ((*clients)[0].correct, 3);
  EXPECT_DOUBLE_EQ((*clients)[0].auroc, 0.5 + 3 * 0.0625);
  EXPECT_EQ(history.client_metrics("newcomers", "post", "test", 2)->size(), 1U);
  EXPECT_TRUE(history.client_metrics("clients", "post", "val", 2)->empty());
}

TEST_F(Histories, TotalsAddUp) {
  auto history = make();
  EXPECT_EQ(history.totals()->bytes_down, 0) << "before the first round";
  fill(history, 3);
  const auto totals = history.totals();
  ASSERT_THAT(totals, Succeeds());
  EXPECT_EQ(totals->bytes_down, 300);
  EXPECT_EQ(totals->bytes_up, 270);
  EXPECT_EQ(totals->wire_down, 360);
  EXPECT_EQ(totals->wire_up, 330);
  EXPECT_EQ(totals->dropped, 3);
  EXPECT_EQ(totals->rejected, 0);
  EXPECT_DOUBLE_EQ(totals->sim_seconds, 6);
  EXPECT_DOUBLE_EQ(totals->wall_seconds, 3.25);  // one evaluation took a quarter of a second
  EXPECT_DOUBLE_EQ(totals->train_seconds, 1.5);
}

TEST_F(Histories, TrafficOfTheLastEvaluation) {
  auto history = make();
  EXPECT_EQ(history.last_eval_traffic()->eval_down, 0) << "before the first";
  fill(history, 4);
  const auto traffic = history.last_eval_traffic();
  ASSERT_THAT(traffic, Succeeds());
  EXPECT_EQ(traffic->eval_down, 400);
  EXPECT_EQ(traffic->eval_up, 8);
  EXPECT_EQ(traffic->exchanges, 3);
  EXPECT_EQ(traffic->onboard_down, 60);
  EXPECT_EQ(traffic->onboard_up, 40);
  EXPECT_EQ(ask("SELECT * FROM eval_traffic"), "2 400 8 3 60 20 1.0;4 400 8 3 60 40 1.0;");
}

TEST_F(Histories, ExhibitsOfEveryEvaluationPicturesOfTheLast) {
  auto history = make();
  fill(history, 4);
  EXPECT_EQ(ask("SELECT round, name, kind, title, rows, columns, shape FROM exhibits"),
            "2 similarity matrix Who is like whom [] [] [2,2];"
            "4 similarity matrix Who is like whom [] [] [2,2];"
            "4 maps images Attention [\"x\"] [\"in\",\"out\"] [1,2,2,2];");
  // float64, least significant byte first: 1, 0.5, the quiet NaN, 1.
  EXPECT_EQ(ask("SELECT hex(value) FROM exhibits WHERE round = 2"),
            "000000000000F03F000000000000E03F000000000000F87F000000000000F03F;");
  EXPECT_EQ(History::exhibit_names(path_), (std::vector<std::string>{"maps", "similarity"}));
  EXPECT_TRUE(History::exhibit_names(path_ + "-nowhere").empty());
}

TEST_F(Histories, WrongExhibitsAreTheMethodsFault) {
  auto history = make();
  fill(history, 1);
  const auto with = [&](const std::function<void(std::vector<Exhibit>&)>& change) {
    auto report = evaluation(1);
    change(report.exhibits);
    return history.append_evaluation(report, 0);
  };
  EXPECT_THAT(with([](auto& e) { e[0].name = "../etc"; }),
              FailsWith(Error::kInternal, "its name must be"));
  EXPECT_THAT(with([](auto& e) { e[1].name = e[0].name; }),
              FailsWith(Error::kInternal, "'similarity' of the method: there are two"));
  EXPECT_THAT(with([](auto& e) { e[0].value = e[0].value.view({4}); }),
              FailsWith(Error::kInternal, "must have 2 dimensions"));
  EXPECT_THAT(with([](auto& e) {
                e[0].value = at::ones({2, 2}, at::kLong);
              }),
              FailsWith(Error::kInternal, "not a floating tensor"));
  EXPECT_THAT(with([](auto& e) { e[0].value = Tensor(); }),
              FailsWith(Error::kInternal, "not a floating tensor"));
  EXPECT_THAT(with([](auto& e) { e[0].rows = {"one"}; }),
              FailsWith(Error::kInternal, "1 names for 2 rows"));
  EXPECT_THAT(with([](auto& e) {
                e[0].kind = Exhibit::Kind::kGraph, e[0].value = at::ones({2, 3});
              }),
              FailsWith(Error::kInternal, "must be square"));
  EXPECT_EQ(ask("SELECT count(*) FROM exhibits"), "0;") << "nothing of a refused evaluation";
  EXPECT_EQ(ask("SELECT count(*) FROM evals"), "0;");
  EXPECT_THAT(with([](auto& e) { e[0].value = at::ones({0, 3}); }), Succeeds()) << "left out";
  EXPECT_EQ(ask("SELECT name FROM exhibits"), "maps;");
}

TEST_F(Histories, NamesOfExhibitsNeedNotBeUtf8) {
  auto history = make();
  fill(history, 1);
  auto report = evaluation(1);
  report.exhibits.resize(1);
  report.exhibits[0].rows = {"a\xFF", "b"};
  EXPECT_THAT(history.append_evaluation(report, 0), Succeeds());
  EXPECT_EQ(ask("SELECT rows FROM exhibits"), "[\"a\uFFFD\",\"b\"];");
}

TEST_F(Histories, ARoundWithoutUploadsHasNoLoss) {
  auto history = make();
  auto report = round_report(1);
  report.loss = std::nan("");
  ASSERT_THAT(history.append_round(report), Succeeds());
  EXPECT_EQ(ask("SELECT loss IS NULL FROM rounds"), "1;");
}

TEST_F(Histories, OtherAndDamagedFilesAreClearErrors) {
  EXPECT_THAT(History::reopen(path_, 0, ""), FailsWith(Error::kInvalid, "--force"))
      << "no such file";
  testing::put(path_,
               "this is not a database, and it is longer than a header of one hundred bytes "
               "so that nobody takes it for an empty file");
  EXPECT_THAT(History::reopen(path_, 0, ""), FailsWith(Error::kInvalid, path_));
  EXPECT_THAT(History::open(path_), FailsWith(Error::kInvalid, path_));
  std::filesystem::remove(path_);
  EXPECT_THAT(History::open(path_), FailsWith(Error::kNotFound, path_));
  make();
  change("UPDATE meta SET value = '3' WHERE key = 'format'");
  EXPECT_THAT(History::reopen(path_, 0, ""),
              FailsWith(Error::kInvalid, "another program or version"));
  EXPECT_THAT(History::open(path_), FailsWith(Error::kInvalid, "another program or version"));
}

TEST_F(Histories, ATruncatedFileIsAClearError) {
  std::string expected;
  {
    auto history = make();
    fill(history, 60);
    expected = *history.running_digest();
  }
  const auto whole = testing::get(path_);
  ASSERT_GT(whole.size(), 20000U);
  for (const size_t size : {whole.size() - 5000, whole.size() / 2, size_t{5000}, size_t{100}}) {
    testing::put(path_, whole.substr(0, size));
    EXPECT_THAT(History::reopen(path_, 60, expected), FailsWith(Error::kInvalid, path_)) << size;
  }
}

TEST_F(Histories, RoundsAndEvaluationsComeInOrder) {
  auto history = make();
  EXPECT_THAT(history.append_round(round_report(2)), FailsWith(Error::kInternal, "round 2"));
  fill(history, 2);
  EXPECT_THAT(history.append_round(round_report(2)), FailsWith(Error::kInternal, "round 2"));
  EXPECT_THAT(history.append_evaluation(evaluation(1), 0), FailsWith(Error::kInternal, "round 1"));
  const auto before = *history.running_digest();
  EXPECT_FALSE(history.append_evaluation(evaluation(2), 0).ok()) << "there is one already";
  EXPECT_EQ(*history.running_digest(), before);
  EXPECT_EQ(ask("SELECT count(*) FROM eval_traffic"), "1;");
  EXPECT_THAT(history.set("seed", "8"), FailsWith(Error::kInternal, "'seed' is a fact"));
}

TEST_F(Histories, ProblemsAreKeptByClient) {
  auto history = make();
  ASSERT_THAT(history.append_round(with_problems(round_report(1))), Succeeds());
  ASSERT_THAT(history.append_round(with_problems(round_report(2))), Succeeds());
  ASSERT_THAT(history.append_evaluation(with_problems(evaluation(2)), 0), Succeeds());
  EXPECT_EQ(ask("SELECT * FROM problems"),
            "1 1 upload lost in round 1;2 1 upload lost in round 2;"
            "2 0 evaluation not finite;2 2 join no answer;2 2 join no answer again;");
  const auto problems = history.problems();
  ASSERT_THAT(problems, Succeeds());
  ASSERT_EQ(problems->size(), 3U);
  const auto& upload = (*problems)[1];
  EXPECT_EQ(upload.client, 1);
  EXPECT_EQ(upload.kind, "upload");
  EXPECT_EQ(upload.count, 2);
  EXPECT_EQ(upload.round, 1);
  EXPECT_EQ(upload.reason, "lost in round 1");
  EXPECT_EQ((*problems)[0].kind, "evaluation");
  EXPECT_EQ((*problems)[2].count, 2);
  EXPECT_EQ((*problems)[2].reason, "no answer");
}

TEST_F(Histories, RoundsThatCountedAreCounted) {
  auto history = make();
  EXPECT_EQ(history.totals()->counted, 0);
  fill(history, 2);
  auto lost = round_report(3);
  lost.counted = false;
  ASSERT_THAT(history.append_round(lost), Succeeds());
  EXPECT_EQ(history.totals()->counted, 2);
  EXPECT_EQ(ask("SELECT counted FROM rounds"), "1;1;0;");
}

TEST_F(Histories, AnEvaluationOfNobodyIsAnEvaluation) {
  auto history = make();
  fill(history, 1);
  EvalReport report{.round = 1};
  report.problems = {{Problem::Kind::kEvaluation, 0, "not finite"}};
  ASSERT_THAT(history.append_evaluation(report, 0), Succeeds());
  EXPECT_TRUE(*history.has_evaluation(1)) << "or a resumed run would do it again";
  EXPECT_EQ(*history.evaluated_rounds(), (std::vector<int64_t>{1}));
  EXPECT_TRUE(history.evals("clients", "pre", "test")->empty());
}

TEST_F(Histories, CanBeReadWhereNothingCanBeWritten) {
  {
    auto history = make();
    fill(history, 2);
    history.settle();
  }
  std::filesystem::permissions(
      dir_.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  auto history = History::open(path_);
  EXPECT_THAT(history, Succeeds());
  EXPECT_EQ(history->client_names()->size(), 3U);
  EXPECT_EQ(*history->get("seed"), "7");
  std::filesystem::permissions(dir_.path(), std::filesystem::perms::owner_all);
}

}  // namespace
}  // namespace tessera

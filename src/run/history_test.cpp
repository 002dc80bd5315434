#include "run/history.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <functional>
#include <set>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;
using testing::TempDir;

Federation two_clients_and_a_newcomer() {
  auto pool = std::make_shared<Pool>();
  pool->x = at::zeros({6, 1});
  pool->y = at::tensor({0, 1, 1, 2, 0, 2}, at::kLong);
  pool->classes = 3;
  Federation out;
  out.classes = 3;
  out.clients = {{"a", pool, {0, 1, 2}, {3}, {4}, {}}, {"b", pool, {5}, {}, {0, 1}, {}}};
  out.newcomers = {{"late", pool, {2}, {}, {3}, {}}};
  return out;
}

ClientMetrics metrics(int64_t n, int64_t correct) {
  return {n,    correct, 0.125 * static_cast<double>(correct),        0.5,  0.25,
          0.75, 0.625,   0.5 + 0.0625 * static_cast<double>(correct), 0.375};
}

RoundReport round_report(int64_t round) {
  return {.round = round,
          .cohort = 2,
          .dropped = 1,
          .rejected = 0,
          .counted = true,
          .loss = 1.5 / static_cast<double>(round),
          .bytes_down = 100,
          .bytes_up = 90,
          .wire_down = 120,
          .wire_up = 110,
          .sim_seconds = 2,
          .wall_seconds = 1,
          .train_seconds = 0.5};
}

EvalReport evaluation(int64_t round) {
  Evaluation a{
      .client = 0, .pre_test = metrics(4, 1), .post_test = metrics(4, 3), .pre_val = metrics(1, 1)};
  Evaluation b{.client = 1, .pre_test = metrics(2, 2), .post_test = metrics(2, 2)};
  a.global_test = metrics(4, 2);
  a.pre_confusion = {3, {1, 2, 0, 0, 0, 0, 1, 0, 0}},
  a.post_confusion = {3, {3, 0, 0, 0, 0, 0, 1, 0, 0}};
  b.pre_confusion = b.post_confusion = {3, {1, 0, 0, 0, 1, 0, 0, 0, 0}};
  Evaluation late{.client = 2, .pre_test = metrics(1, 0), .post_test = metrics(1, 1)};
  EvalReport out{.round = round, .clients = {a, b}, .newcomers = {late}};
  out.eval_down = 400, out.eval_up = 8, out.exchanges = 3, out.onboard_down = 60;
  out.onboard_up = 10 * round;
  out.exhibits = {{"similarity", "Who is like whom", Exhibit::Kind::kMatrix,
                   at::tensor({1.0F, 0.5F, std::nanf(""), 1.0F}).view({2, 2})},
                  {"maps",
                   "Attention",
                   Exhibit::Kind::kImages,
                   at::full({1, 2, 2, 2}, 0.25 * static_cast<double>(round)),
                   {"x"},
                   {"in", "out"}}};
  return out;
}

RoundReport with_problems(RoundReport report) {
  report.problems = {{Problem::Kind::kUpload, 1, fmt::format("lost in round {}", report.round)}};
  return report;
}
EvalReport with_problems(EvalReport report) {
  report.problems = {{Problem::Kind::kEvaluation, 0, "not finite"},
                     {Problem::Kind::kJoin, 2, "no answer"},
                     {Problem::Kind::kJoin, 2, "no answer again"}};
  return report;
}

class Histories : public ::testing::Test {
 protected:
  History make() {
    auto made = History::create(path_, {{"seed", "7"}}, two_clients_and_a_newcomer());
    EXPECT_THAT(made, Succeeds());
    return *std::move(made);
  }
  void fill(History& history, int64_t rounds) {
    for (int64_t round = 1; round <= rounds; ++round) {
      ASSERT_THAT(history.append_round(round_report(round)), Succeeds());
      if (round % 2 == 0) {
        ASSERT_THAT(history.append_evaluation(evaluation(round), 0.25), Succeeds());
      }
    }
  }
  static std::string digest(History& history) {
    Digest out;
    EXPECT_THAT(history.digest(out), Succeeds());
    return out.hex();
  }
  // Rows as text, through a connection of its own.
  std::string ask(const std::string& sql) {
    auto database = Database::open(path_, Database::Mode::kReadOnly);
    EXPECT_THAT(database, Succeeds());
    auto rows = database->prepare(sql);
    EXPECT_THAT(rows, Succeeds());
    std::string out;
    while (*rows->step()) {
      for (int i = 0; i < rows->columns(); ++i)
        out += rows->text(i) + (i + 1 < rows->columns() ? " " : ";");
    }
    return out;
  }

  // As another program would, with the write-ahead log folded in.
  void change(const std::string& sql) {
    auto database = Database::open(path_, Database::Mode::kReadWrite);
    ASSERT_THAT(database, Succeeds());
    ASSERT_THAT(database->execute(sql), Succeeds()) << sql;
  }

  TempDir dir_;
  const std::string path_ = dir_.path() + "/h.sqlite";
};

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

TEST_F(Histories, ReopeningCutsBackToTheCheckpoint) {
  std::string at_two, expected;
  {
    auto history = make();
    auto second = evaluation(2);
    second.exhibits.pop_back();  // pictures are not kept beyond the next evaluation
    for (int64_t round = 1; round <= 2; ++round)
      ASSERT_THAT(history.append_round(round_report(round)), Succeeds());
    ASSERT_THAT(history.append_evaluation(second, 0), Succeeds());
    at_two = digest(history), expected = *history.running_digest();
    for (int64_t round = 3; round <= 5; ++round) {
      ASSERT_THAT(history.append_round(round_report(round)), Succeeds());
      if (round == 4) {
        ASSERT_THAT(history.append_evaluation(evaluation(4), 0), Succeeds());
      }
    }
    EXPECT_NE(digest(history), at_two);
  }
  auto again = History::reopen(path_, 2, expected);
  ASSERT_THAT(again, Succeeds());
  EXPECT_EQ(digest(*again), at_two);
  EXPECT_TRUE(*again->has_evaluation(2));
  EXPECT_FALSE(*again->has_evaluation(4));
  EXPECT_EQ(ask("SELECT max(round) FROM client_evals"), "2;");
  EXPECT_EQ(ask("SELECT max(round) FROM exhibits"), "2;");
  EXPECT_EQ(ask("SELECT max(round) FROM confusions"), "2;");
  EXPECT_EQ(ask("SELECT max(round) FROM eval_traffic"), "2;");
  EXPECT_THAT(again->append_round(round_report(3)), Succeeds());
}

TEST_F(Histories, ReopeningWithTooFewRoundsFailsAndLosesNothing) {
  {
    auto history = make();
    fill(history, 3);
  }
  EXPECT_THAT(History::reopen(path_, 5, ""), FailsWith(Error::kInvalid, "holds 3 rounds"));
  EXPECT_EQ(ask("SELECT count(*) FROM rounds"), "3;");
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

TEST_F(Histories, TheRunningDigestGoesOnWhereItWas) {
  std::vector<std::string> seen;  // after every round and every evaluation
  {
    auto history = make();
    seen.push_back(*history.running_digest());
    for (int64_t round = 1; round <= 4; ++round) {
      ASSERT_THAT(history.append_round(round_report(round)), Succeeds());
      seen.push_back(*history.running_digest());
      if (round % 2 != 0) continue;
      ASSERT_THAT(history.append_evaluation(evaluation(round), 0.25), Succeeds());
      seen.push_back(*history.running_digest());
    }
    EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), seen.size());
    ASSERT_THAT(history.set("state", "finished"), Succeeds());
    ASSERT_THAT(history.set("summary", "{}"), Succeeds());
    EXPECT_EQ(*history.running_digest(), seen.back());
  }
  auto again = History::reopen(path_, 4, seen.back());
  ASSERT_THAT(again, Succeeds());
  EXPECT_EQ(*again->running_digest(), seen.back());
  again = fail(Error::kInternal, "closed");
  // From the middle, and on to the same end.
  again = History::reopen(path_, 1, seen[1]);
  ASSERT_THAT(again, Succeeds());
  ASSERT_THAT(again->append_round(round_report(2)), Succeeds());
  EXPECT_EQ(*again->running_digest(), seen[2]);
  ASSERT_THAT(again->append_evaluation(evaluation(2), 0.25), Succeeds());
  EXPECT_EQ(*again->running_digest(), seen[3]);
}

TEST_F(Histories, AnEvaluationAfterTheCheckpointIsDropped) {
  // The checkpoint of a round is written before the round is evaluated.
  std::string expected, at_two;
  {
    auto history = make();
    fill(history, 3);
    at_two = digest(history);
    ASSERT_THAT(history.append_round(with_problems(round_report(4))), Succeeds());
    expected = *history.running_digest();
    ASSERT_THAT(history.append_evaluation(with_problems(evaluation(4)), 0.7), Succeeds());
  }
  {
    auto again = History::reopen(path_, 4, expected);
    ASSERT_THAT(again, Succeeds());
    EXPECT_FALSE(*again->has_evaluation(4));
    EXPECT_EQ(*again->running_digest(), expected);
    EXPECT_EQ(ask("SELECT count(*) FROM client_evals WHERE round = 4"), "0;");
    EXPECT_EQ(ask("SELECT count(*) FROM confusions WHERE round = 4"), "0;");
    EXPECT_EQ(ask("SELECT kind FROM problems WHERE round = 4"), "upload;");
    EXPECT_EQ(ask("SELECT wall_seconds FROM rounds WHERE round = 4"), "1.0;");
    ASSERT_THAT(again->append_evaluation(evaluation(4), 0.7), Succeeds());
    expected = *again->running_digest();
  }
  EXPECT_THAT(History::reopen(path_, 4, expected), Succeeds());
}

TEST_F(Histories, PicturesThatALaterEvaluationThrewAwayAreNotMissed) {
  std::string at_two, at_four;
  {
    auto history = make();
    fill(history, 2);
    at_two = *history.running_digest();
    for (const int64_t round : {3, 4})
      ASSERT_THAT(history.append_round(round_report(round)), Succeeds());
    ASSERT_THAT(history.append_evaluation(evaluation(4), 0), Succeeds());
    at_four = *history.running_digest();
  }
  const auto whole = testing::get(path_);
  EXPECT_THAT(History::reopen(path_, 2, at_two), Succeeds());
  testing::put(path_, whole);
  change("DELETE FROM exhibits WHERE kind = 'images'");
  EXPECT_THAT(History::reopen(path_, 4, at_four), FailsWith(Error::kInvalid, "was changed"))
      << "nothing came after these";
}

TEST_F(Histories, AnyChangeSinceTheCheckpointIsSeen) {
  std::string expected;
  {
    auto history = make();
    for (int64_t round = 1; round <= 3; ++round) {
      ASSERT_THAT(history.append_round(with_problems(round_report(round))), Succeeds());
      ASSERT_THAT(history.append_evaluation(with_problems(evaluation(round)), 0.1), Succeeds());
    }
    expected = *history.running_digest();
  }
  const auto whole = testing::get(path_);
  ASSERT_THAT(History::reopen(path_, 3, expected), Succeeds());
  std::vector<std::pair<std::string, std::string>> columns;  // every column of every table
  {
    auto database = *Database::open(path_, Database::Mode::kReadOnly);
    auto rows = *database.prepare(
        "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c "
        "WHERE m.type = 'table'");
    while (*rows.step()) columns.emplace_back(rows.text(0), rows.text(1));
  }
  ASSERT_GT(columns.size(), 60U);
  std::string emptied;  // the last table that a row was taken from
  for (const auto& [table, column] : columns) {
    // A whole number, the last bit of a real, the last letter of a text; in the first and the last
    // row.
    for (const char* end : {"min", "max"}) {
      testing::put(path_, whole);
      change(
          fmt::format("UPDATE {0} SET {1} = CASE typeof({1}) WHEN 'integer' THEN {1} + 7 "
                      "WHEN 'real' THEN {1} * 1.0000000000000002 + 1e-300 WHEN 'null' THEN 0.5 "
                      "ELSE substr({1}, 1, length({1}) - 1) || 'Z' END "
                      "WHERE rowid = (SELECT {2}(rowid) FROM {0} WHERE {3})",
                      table, column, end, table == "meta" ? "key = 'seed'" : "1"));
      EXPECT_THAT(History::reopen(path_, 3, expected), FailsWith(Error::kInvalid, "--force"))
          << table << "." << column << " " << end;
    }
    if (table == emptied) continue;
    emptied = table;
    testing::put(path_, whole);
    change(fmt::format("DELETE FROM {0} WHERE rowid = (SELECT min(rowid) FROM {0})", table));
    EXPECT_THAT(History::reopen(path_, 3, expected), FailsWith(Error::kInvalid, "--force"))
        << table;
  }
  testing::put(path_, whole);
  change(
      "INSERT INTO client_evals SELECT -1, client, view, part, n, correct, loss, "
      "precision_macro, f1_macro, f1_remap, balanced_accuracy, auroc, ece FROM client_evals "
      "WHERE round = 1");
  EXPECT_THAT(History::reopen(path_, 3, expected), FailsWith(Error::kInvalid, "was changed"));
  EXPECT_EQ(ask("SELECT count(*) FROM rounds"), "3;") << "and it stays as it is";
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

TEST_F(Histories, TheDigestIsThatOfEarlierVersions) {
  // What format 2 gave for the same reports; new tables are no part of it.
  auto history = make();
  fill(history, 4);
  EXPECT_EQ(digest(history), "a7432cf13f182d1a49e0e3a8d714adef0f1316c2677e6c57621f29e6391ad67d");
}

TEST_F(Histories, TheDigestOfTheFiguresSeesWhatTheOtherDoesNot) {
  const auto of = [&](const std::function<void(EvalReport&)>& change) {
    const TempDir dir;
    auto history = *History::create(dir.path() + "/h", {}, two_clients_and_a_newcomer());
    EXPECT_THAT(history.append_round(round_report(1)), Succeeds());
    auto report = evaluation(1);
    change(report);
    EXPECT_THAT(history.append_evaluation(report, 0), Succeeds());
    return std::pair{digest(history), *history.figures_digest()};
  };
  const auto same = of([](auto&) {});
  for (const auto field :
       {&ClientMetrics::balanced_accuracy, &ClientMetrics::auroc, &ClientMetrics::ece})
    for (const auto view : {&Evaluation::pre_test, &Evaluation::post_test, &Evaluation::pre_val}) {
      const auto other = of([&](auto& e) {
        double& value = e.clients[0].*view.*field;
        value = std::nextafter(value, 9);
      });
      EXPECT_EQ(other.first, same.first);
      EXPECT_NE(other.second, same.second);
    }
  EXPECT_NE(of([](auto& e) { e.clients[0].pre_test.auroc = std::nan(""); }).second, same.second);
  const auto moved = of([](auto& e) {
    --e.clients[0].pre_confusion->counts[0], ++e.clients[0].pre_confusion->counts[4];
  });
  EXPECT_EQ(moved.first, same.first);
  EXPECT_NE(moved.second, same.second);
}

TEST_F(Histories, TheDigestSeesEveryNumberButTimes) {
  const auto of = [&](const std::function<void(RoundReport&)>& change_round,
                      const std::function<void(EvalReport&)>& change_eval, double seconds = 0) {
    const TempDir dir;
    auto history = *History::create(dir.path() + "/h", {}, two_clients_and_a_newcomer());
    auto round = round_report(1);
    if (change_round) change_round(round);
    EXPECT_THAT(history.append_round(round), Succeeds());
    auto report = evaluation(1);
    if (change_eval) change_eval(report);
    EXPECT_THAT(history.append_evaluation(report, seconds), Succeeds());
    return digest(history);
  };
  const auto same = of(nullptr, nullptr);
  EXPECT_EQ(
      of([](auto& r) { r.sim_seconds = 9, r.wall_seconds = 9, r.train_seconds = 9; }, nullptr, 5),
      same);
  for (const auto field : {&RoundReport::cohort, &RoundReport::dropped, &RoundReport::rejected,
                           &RoundReport::bytes_down, &RoundReport::bytes_up,
                           &RoundReport::wire_down, &RoundReport::wire_up})
    EXPECT_NE(of([&](auto& r) { r.*field += 1; }, nullptr), same);
  EXPECT_NE(of([](auto& r) { r.loss = std::nextafter(r.loss, 9); }, nullptr), same);
  EXPECT_NE(of([](auto& r) { r.loss = std::nan(""); }, nullptr), same);
  for (const auto field : {&ClientMetrics::loss, &ClientMetrics::precision_macro,
                           &ClientMetrics::f1_macro, &ClientMetrics::f1_remap})
    for (const auto view : {&Evaluation::pre_test, &Evaluation::post_test, &Evaluation::pre_val})
      EXPECT_NE(of(nullptr,
                   [&](auto& e) {
                     double& value = e.clients[0].*view.*field;
                     value = std::nextafter(value, 9);
                   }),
                same);
  for (const auto field : {&EvalReport::eval_down, &EvalReport::eval_up, &EvalReport::exchanges,
                           &EvalReport::onboard_down, &EvalReport::onboard_up})
    EXPECT_NE(of(nullptr, [&](auto& e) { e.*field += 1; }), same);
  EXPECT_NE(of(nullptr,
               [](auto& e) {
                 e.exhibits[0].value[0][1] = std::nextafter(0.5F, 1.0F);  // one bit
               }),
            same);
  EXPECT_NE(of(nullptr, [](auto& e) { e.exhibits[0].value.neg_(); }), same);
  EXPECT_NE(of(nullptr, [](auto& e) { e.exhibits[0].rows = {"x", "y"}; }), same);
  EXPECT_NE(of(nullptr, [](auto& e) { e.exhibits.pop_back(); }), same);
  EXPECT_EQ(of(nullptr, [](auto& e) { e.exhibits[0].value[1][0] = -std::nanf("1"); }), same)
      << "NaN is NaN";
  EXPECT_NE(of(nullptr, [](auto& e) { --e.clients[1].post_test.correct; }), same);
  EXPECT_NE(of(nullptr, [](auto& e) { ++e.newcomers[0].pre_test.n; }), same);
  EXPECT_NE(of(nullptr, [](auto& e) { e.clients[0].global_test.reset(); }), same);
}

}  // namespace
}  // namespace tessera

// What a history digests, and how a run goes on from the digest in its checkpoint.
#include <cmath>
#include <functional>
#include <set>

#include "run/history_testing.hpp"

namespace tessera {
namespace {

using testing::evaluation;
using testing::FailsWith;
using testing::Histories;
using testing::round_report;
using testing::Succeeds;
using testing::TempDir;
using testing::two_clients_and_a_newcomer;
using testing::with_problems;

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

// A history of two clients and a newcomer, and what is written into it. For tests only.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "io/testing.hpp"
#include "run/history.hpp"

namespace tessera::testing {

inline Federation two_clients_and_a_newcomer() {
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

inline ClientMetrics metrics(int64_t n, int64_t correct) {
  return {n,    correct, 0.125 * static_cast<double>(correct),        0.5,  0.25,
          0.75, 0.625,   0.5 + 0.0625 * static_cast<double>(correct), 0.375};
}

inline RoundReport round_report(int64_t round) {
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

inline EvalReport evaluation(int64_t round) {
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

inline RoundReport with_problems(RoundReport report) {
  report.problems = {{Problem::Kind::kUpload, 1, fmt::format("lost in round {}", report.round)}};
  return report;
}
inline EvalReport with_problems(EvalReport report) {
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

}  // namespace tessera::testing

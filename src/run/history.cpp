#include "run/history.hpp"

#include <array>
#include <bit>
#include <filesystem>
#include <set>

namespace tessera {
namespace {

constexpr const char* kHistoryFormat = "4";
constexpr const char* kSchema = R"(
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE clients (id INTEGER PRIMARY KEY, name TEXT, newcomer INTEGER,
                      train INTEGER, val INTEGER, test INTEGER);
CREATE TABLE labels (client INTEGER, part TEXT, label INTEGER, n INTEGER);
CREATE TABLE rounds (round INTEGER PRIMARY KEY, cohort INTEGER, dropped INTEGER, rejected INTEGER,
                     loss REAL, bytes_down INTEGER, bytes_up INTEGER, wire_down INTEGER,
                     wire_up INTEGER, sim_seconds REAL, wall_seconds REAL, train_seconds REAL,
                     counted INTEGER);
CREATE TABLE evals (round INTEGER, who TEXT, view TEXT, part TEXT, mean REAL, std REAL, micro REAL,
                    min REAL, max REAL, worst10 REAL, best10 REAL, precision_macro REAL,
                    f1_macro REAL, f1_remap REAL, loss REAL, balanced_accuracy REAL, auroc REAL,
                    ece REAL, PRIMARY KEY (round, who, view, part));
CREATE TABLE client_evals (round INTEGER, client INTEGER, view TEXT, part TEXT, n INTEGER,
                           correct INTEGER, loss REAL, precision_macro REAL, f1_macro REAL,
                           f1_remap REAL, balanced_accuracy REAL, auroc REAL, ece REAL,
                           PRIMARY KEY (round, client, view, part));
CREATE TABLE confusions (round INTEGER, client INTEGER, view TEXT, truth INTEGER,
                         predicted INTEGER, n INTEGER,
                         PRIMARY KEY (round, client, view, truth, predicted));
CREATE TABLE eval_traffic (round INTEGER PRIMARY KEY, eval_down INTEGER, eval_up INTEGER,
                           exchanges INTEGER, onboard_down INTEGER, onboard_up INTEGER,
                           wall_before REAL);
CREATE TABLE exhibits (round INTEGER, name TEXT, kind TEXT, title TEXT, rows TEXT, columns TEXT,
                       shape TEXT, value BLOB, PRIMARY KEY (round, name));
CREATE TABLE images (round INTEGER, name TEXT, sha256 TEXT, PRIMARY KEY (round, name));
CREATE TABLE problems (round INTEGER, client INTEGER, kind TEXT, reason TEXT);
CREATE INDEX problems_by_round ON problems (round);
)";
struct EvalKind {
  const char* view;
  const char* part;
  const ClientMetrics* (*get)(const Evaluation&);
};

Status with_advice(const Status& status) {
  if (status.ok() || error_of(status) != Error::kInvalid) return status;
  return fail(Error::kInvalid, "{}; start anew with --force", message(status));
}

const ClientMetrics* maybe(const std::optional<ClientMetrics>& m) { return m ? &*m : nullptr; }

constexpr EvalKind kKinds[] = {
    {"pre", "test", [](const Evaluation& e) { return &e.pre_test; }},
    {"post", "test", [](const Evaluation& e) { return &e.post_test; }},
    {"global", "test", [](const Evaluation& e) { return maybe(e.global_test); }},
    {"pre", "val", [](const Evaluation& e) { return &e.pre_val; }},
    {"post", "val", [](const Evaluation& e) { return &e.post_val; }},
    {"global", "val", [](const Evaluation& e) { return maybe(e.global_val); }},
};

}  // namespace

const char* name_of(Problem::Kind kind) {
  switch (kind) {
    case Problem::Kind::kUpload:
      return "upload";
    case Problem::Kind::kEvaluation:
      return "evaluation";
    case Problem::Kind::kJoin:
      return "join";
    case Problem::Kind::kServer:
      return "server";
  }
  return "upload";
}

Result<History> History::create(const std::string& path,
                                const std::vector<std::pair<std::string, std::string>>& meta,
                                const Roster& roster) {
  TESSERA_ASSIGN(auto database, Database::open(path, Database::Mode::kReadWrite));
  History history(std::move(database));
  TESSERA_ASSIGN(auto transaction, Transaction::begin(history.database_));
  TESSERA_RETURN_IF_ERROR(history.database_.execute(kSchema));
  TESSERA_RETURN_IF_ERROR(history.put("format", kHistoryFormat));
  for (const auto& [key, value] : meta) TESSERA_RETURN_IF_ERROR(history.put(key, value));
  TESSERA_RETURN_IF_ERROR(history.write_clients(roster));
  TESSERA_RETURN_IF_ERROR(transaction.commit());
  return history;
}

Status History::write_clients(const Roster& roster) {
  TESSERA_ASSIGN(auto client, database_.prepare("INSERT INTO clients VALUES (?,?,?,?,?,?)"));
  TESSERA_ASSIGN(auto label, database_.prepare("INSERT INTO labels VALUES (?,?,?,?)"));
  int64_t id = 0;
  for (const auto* group : {&roster.clients, &roster.newcomers}) {
    for (const auto& member : *group) {
      client.bind_all(id, member.name, group == &roster.newcomers, member.train, member.val,
                      member.test);
      TESSERA_RETURN_IF_ERROR(client.run());
      constexpr std::array kParts{"train", "val", "test"};
      for (size_t part = 0; part < kParts.size(); ++part) {
        const auto& counts = member.labels[part];
        for (size_t k = 0; k < counts.size(); ++k) {
          if (counts[k] == 0) continue;
          label.bind_all(id, kParts[part], static_cast<int64_t>(k), counts[k]);
          TESSERA_RETURN_IF_ERROR(label.run());
        }
      }
      ++id;
    }
  }
  return ok();
}

Result<History> History::open_as(const std::string& path, Database::Mode mode) {
  auto database = Database::open(path, mode);
  if (!database.ok()) return with_advice(database.status());
  TESSERA_RETURN_IF_ERROR(with_advice(database->quick_check()));
  History history(*std::move(database));
  const auto format = history.format();
  if (format != kHistoryFormat)
    return fail(Error::kInvalid,
                "{}: written by another program or version (format {}, expected "
                "{}); start anew with --force",
                path, printable(format), kHistoryFormat);
  return history;
}

Result<History> History::open(const std::string& path) {
  return open_as(path, Database::Mode::kReadOnly);
}

std::string History::format() {
  // No such table means no such format.
  auto row = database_.prepare("SELECT value FROM meta WHERE key = 'format'");
  const bool there = row.ok() && row->step().value_or(false);
  return there ? row->text(0) : "unknown";
}

Status History::set(const std::string& key, const std::string& value) {
  static const std::set<std::string> kChanging{"state", "summary", "metric", "privacy", "failures"};
  if (!kChanging.contains(key))
    return fail(Error::kInternal, "{}: '{}' is a fact and cannot change", database_.path(), key);
  return put(key, value);
}

Status History::put(const std::string& key, const std::string& value) {
  TESSERA_ASSIGN(auto insert, database_.prepare("INSERT OR REPLACE INTO meta VALUES (?,?)"));
  insert.bind_all(key, value);
  return insert.run();
}

void History::settle() { database_.execute("PRAGMA journal_mode = DELETE").IgnoreError(); }

Result<std::string> History::get(const std::string& key) {
  TESSERA_ASSIGN(auto rows, database_.prepare("SELECT value FROM meta WHERE key = ?"));
  rows.bind_all(key);
  TESSERA_ASSIGN(const bool there, rows.step());
  if (!there) return fail(Error::kInvalid, "{}: has no '{}'", database_.path(), key);
  return rows.text(0);
}

std::string History::fact_at(const std::string& path, const std::string& key) {
  auto database = Database::open(path, Database::Mode::kReadOnly);
  if (!database.ok()) return "";
  auto row = database->prepare("SELECT value FROM meta WHERE key = ?");
  if (!row.ok()) return "";
  row->bind_all(key);
  return row->step().value_or(false) ? row->text(0) : "";
}

Result<int64_t> History::count_rounds(const std::string& path) {
  TESSERA_ASSIGN(auto database, Database::open(path, Database::Mode::kReadOnly));
  TESSERA_ASSIGN(auto tables,
                 database.prepare("SELECT count(*) FROM sqlite_master WHERE name = 'rounds'"));
  TESSERA_RETURN_IF_ERROR(tables.step().status());
  if (tables.integer(0) == 0) return 0;  // died while the file was being made
  TESSERA_ASSIGN(auto count, database.prepare("SELECT count(*) FROM rounds"));
  TESSERA_RETURN_IF_ERROR(count.step().status());
  return count.integer(0);
}

Result<std::vector<std::string>> History::client_names() {
  TESSERA_ASSIGN(auto row, database_.prepare("SELECT name FROM clients ORDER BY id"));
  std::vector<std::string> out;
  for (;;) {
    TESSERA_ASSIGN(const bool more, row.step());
    if (!more) return out;
    out.push_back(row.text(0));
  }
}

Status History::append_round(const RoundReport& r) {
  if (r.round != newest_ + 1)
    return fail(Error::kInternal, "{}: round {} cannot follow round {}", database_.path(), r.round,
                newest_);
  TESSERA_ASSIGN(auto before, running_digest());
  TESSERA_ASSIGN(auto transaction, Transaction::begin(database_));
  {
    TESSERA_ASSIGN(auto insert,
                   database_.prepare("INSERT INTO rounds VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"));
    insert.bind_all(r.round, r.cohort, r.dropped, r.rejected, r.loss, r.bytes_down, r.bytes_up,
                    r.wire_down, r.wire_up, r.sim_seconds, r.wall_seconds, r.train_seconds,
                    r.counted);
    TESSERA_RETURN_IF_ERROR(insert.run());
  }
  TESSERA_RETURN_IF_ERROR(write_problems(r.round, r.problems));
  TESSERA_RETURN_IF_ERROR(transaction.commit());
  newest_ = r.round, before_ = std::move(before), running_.reset();
  return ok();
}

Status History::append_evaluation(const EvalReport& evaluation, double seconds) {
  if (evaluation.round != newest_)
    return fail(Error::kInternal, "{}: an evaluation of round {} cannot follow round {}",
                database_.path(), evaluation.round, newest_);
  TESSERA_ASSIGN(auto transaction, Transaction::begin(database_));
  TESSERA_RETURN_IF_ERROR(write_evaluation(evaluation));
  TESSERA_RETURN_IF_ERROR(write_confusions(evaluation));
  TESSERA_RETURN_IF_ERROR(write_traffic(evaluation, seconds));
  TESSERA_RETURN_IF_ERROR(write_exhibits(evaluation));
  TESSERA_RETURN_IF_ERROR(write_images(evaluation.round));
  TESSERA_RETURN_IF_ERROR(write_problems(evaluation.round, evaluation.problems));
  TESSERA_RETURN_IF_ERROR(transaction.commit());
  running_.reset();
  return ok();
}

Result<bool> History::has_evaluation(int64_t round) {
  TESSERA_ASSIGN(auto rows, database_.prepare("SELECT 1 FROM eval_traffic WHERE round = ?"));
  rows.bind_all(round);
  return rows.step();
}

Result<std::vector<int64_t>> History::evaluated_rounds() {
  TESSERA_ASSIGN(auto rows, database_.prepare("SELECT round FROM eval_traffic ORDER BY round"));
  std::vector<int64_t> out;
  for (;;) {
    TESSERA_ASSIGN(const bool more, rows.step());
    if (!more) return out;
    out.push_back(rows.integer(0));
  }
}

Status History::write_problems(int64_t round, std::span<const Problem> problems) {
  TESSERA_ASSIGN(auto insert, database_.prepare("INSERT INTO problems VALUES (?,?,?,?)"));
  for (const auto& problem : problems) {
    insert.bind_all(round, problem.client, name_of(problem.kind), problem.reason);
    TESSERA_RETURN_IF_ERROR(insert.run());
  }
  return ok();
}

Result<std::vector<ProblemCount>> History::problems() {
  TESSERA_ASSIGN(auto rows, database_.prepare("SELECT client, kind, round, reason FROM problems "
                                              "ORDER BY client, kind, round, rowid"));
  std::vector<ProblemCount> out;
  for (;;) {
    TESSERA_ASSIGN(const bool more, rows.step());
    if (!more) return out;
    if (out.empty() || out.back().client != rows.integer(0) || out.back().kind != rows.text(1))
      out.push_back({rows.integer(0), rows.text(1), 0, rows.integer(2), rows.text(3)});
    ++out.back().count;
  }
}

Status History::write_evaluation(const EvalReport& report) {
  TESSERA_ASSIGN(auto one,
                 database_.prepare("INSERT INTO client_evals VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"));
  TESSERA_ASSIGN(auto all, database_.prepare(
                               "INSERT INTO evals VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
  for (const auto* group : {&report.clients, &report.newcomers}) {
    if (group->empty()) continue;
    const char* who = group == &report.clients ? "clients" : "newcomers";
    for (const auto& kind : kKinds) {
      std::vector<ClientMetrics> metrics;
      for (const auto& evaluation : *group) {
        const auto* m = kind.get(evaluation);
        if (!m || m->n == 0) continue;
        metrics.push_back(*m);
        one.bind_all(report.round, evaluation.client, kind.view, kind.part, m->n, m->correct,
                     m->loss, m->precision_macro, m->f1_macro, m->f1_remap, m->balanced_accuracy,
                     m->auroc, m->ece);
        TESSERA_RETURN_IF_ERROR(one.run());
      }
      if (metrics.empty()) continue;
      const auto s = summarize(metrics);
      all.bind_all(report.round, who, kind.view, kind.part, s.mean, s.std, s.micro, s.min, s.max,
                   s.worst10, s.best10, s.precision_macro, s.f1_macro, s.f1_remap, s.loss,
                   s.balanced_accuracy, s.auroc, s.ece);
      TESSERA_RETURN_IF_ERROR(all.run());
    }
  }
  return ok();
}

Status History::write_confusions(const EvalReport& report) {
  TESSERA_ASSIGN(auto insert, database_.prepare("INSERT INTO confusions VALUES (?,?,?,?,?,?)"));
  for (const auto* group : {&report.clients, &report.newcomers}) {
    for (const auto& evaluation : *group) {
      for (const auto& [view, confusion] :
           {std::pair{"pre", &evaluation.pre_confusion}, {"post", &evaluation.post_confusion}}) {
        for (int64_t i = 0; *confusion && i < std::ssize((*confusion)->counts); ++i) {
          const int64_t n = (*confusion)->counts[static_cast<size_t>(i)];
          if (n == 0) continue;
          insert.bind_all(report.round, evaluation.client, view, i / (*confusion)->classes,
                          i % (*confusion)->classes, n);
          TESSERA_RETURN_IF_ERROR(insert.run());
        }
      }
    }
  }
  return ok();
}

Result<std::vector<History::ConfusionRow>> History::confusion(const std::string& who,
                                                              const std::string& view,
                                                              int64_t round) {
  TESSERA_ASSIGN(
      auto rows,
      database_.prepare("SELECT truth, predicted, sum(n) FROM confusions JOIN clients ON "
                        "clients.id = confusions.client WHERE round = ? AND view = ? AND "
                        "newcomer = ? GROUP BY truth, predicted ORDER BY truth, predicted"));
  rows.bind_all(round, view, who == "newcomers");
  std::vector<ConfusionRow> out;
  for (;;) {
    TESSERA_ASSIGN(const bool more, rows.step());
    if (!more) return out;
    out.push_back({rows.integer(0), rows.integer(1), rows.integer(2)});
  }
}

Result<std::vector<ClientMetrics>> History::client_metrics(const std::string& who,
                                                           const std::string& view,
                                                           const std::string& part, int64_t round) {
  TESSERA_ASSIGN(auto rows,
                 database_.prepare(
                     "SELECT n, correct, loss, precision_macro, f1_macro, f1_remap, "
                     "balanced_accuracy, auroc, ece FROM client_evals JOIN clients ON "
                     "clients.id = client_evals.client WHERE round = ? AND view = ? AND part = ? "
                     "AND newcomer = ? ORDER BY client"));
  rows.bind_all(round, view, part, who == "newcomers");
  std::vector<ClientMetrics> out;
  for (;;) {
    TESSERA_ASSIGN(const bool more, rows.step());
    if (!more) return out;
    out.push_back({rows.integer(0), rows.integer(1), rows.real(2), rows.real(3), rows.real(4),
                   rows.real(5), rows.real(6), rows.real(7), rows.real(8)});
  }
}

Result<HistoryTotals> History::totals() {
  TESSERA_ASSIGN(
      auto sum,
      database_.prepare("SELECT sum(bytes_down), sum(bytes_up), sum(wire_down), sum(wire_up), "
                        "sum(dropped), sum(rejected), sum(sim_seconds), sum(wall_seconds), "
                        "sum(train_seconds), sum(counted) FROM rounds"));
  TESSERA_RETURN_IF_ERROR(sum.step().status());
  return HistoryTotals{sum.integer(0), sum.integer(1), sum.integer(2), sum.integer(3),
                       sum.integer(4), sum.integer(5), sum.real(6),    sum.real(7),
                       sum.real(8),    sum.integer(9)};
}

Status History::write_traffic(const EvalReport& e, double seconds) {
  TESSERA_ASSIGN(auto insert,
                 database_.prepare("INSERT INTO eval_traffic VALUES (?,?,?,?,?,?,"
                                   "(SELECT wall_seconds FROM rounds WHERE round = ?))"));
  insert.bind_all(e.round, e.eval_down, e.eval_up, e.exchanges, e.onboard_down, e.onboard_up,
                  e.round);
  TESSERA_RETURN_IF_ERROR(insert.run());
  TESSERA_ASSIGN(
      auto update,
      database_.prepare("UPDATE rounds SET wall_seconds = wall_seconds + ? WHERE round = ?"));
  update.bind_all(seconds, e.round);
  return update.run();
}

Result<EvalTraffic> History::last_eval_traffic() {
  TESSERA_ASSIGN(auto row,
                 database_.prepare("SELECT eval_down, eval_up, exchanges, onboard_down, onboard_up "
                                   "FROM eval_traffic ORDER BY round DESC LIMIT 1"));
  TESSERA_ASSIGN(const bool there, row.step());
  if (!there) return EvalTraffic{};
  return EvalTraffic{row.integer(0), row.integer(1), row.integer(2), row.integer(3),
                     row.integer(4)};
}

Result<std::vector<History::EvalRow>> History::evals(const std::string& who,
                                                     const std::string& view,
                                                     const std::string& part) {
  TESSERA_ASSIGN(auto rows,
                 database_.prepare("SELECT round, mean, std, micro, min, max, worst10, best10, "
                                   "precision_macro, f1_macro, f1_remap, loss, "
                                   "balanced_accuracy, auroc, ece FROM evals "
                                   "WHERE who = ? AND view = ? AND part = ? ORDER BY round"));
  rows.bind_all(who, view, part);
  std::vector<EvalRow> out;
  for (;;) {
    TESSERA_ASSIGN(const bool more, rows.step());
    if (!more) return out;
    out.push_back({rows.integer(0),
                   {rows.real(1), rows.real(2), rows.real(3), rows.real(4), rows.real(5),
                    rows.real(6), rows.real(7), rows.real(8), rows.real(9), rows.real(10),
                    rows.real(11), rows.real(12), rows.real(13), rows.real(14)}});
  }
}

namespace {

struct Query {
  const char* sql;
  int reals;  // columns from here on are doubles, taken by their bits: their text is rounded
};

Status add_rows(Database& database, const Query& query, Digest& digest) {
  TESSERA_ASSIGN(auto rows, database.prepare(query.sql));
  for (;;) {
    TESSERA_ASSIGN(const bool more, rows.step());
    if (!more) return ok();
    std::string line;
    for (int column = 0; column < rows.columns(); ++column) {
      line += rows.is_null(column) ? "-"
              : column < query.reals
                  ? rows.text(column)
                  : fmt::format("{:016x}", std::bit_cast<uint64_t>(rows.real(column)));
      line += ' ';
    }
    digest.add(line + "\n");
  }
}

}  // namespace

// The columns of format 2 alone, so that digests of all versions compare; figures_digest() has the
// rest.
Status History::digest(Digest& digest) {
  for (const auto& query :
       {Query{"SELECT round, cohort, dropped, rejected, bytes_down, bytes_up, wire_down, wire_up, "
              "loss FROM rounds ORDER BY round",
              8},
        Query{"SELECT round, client, view, part, n, correct, loss, precision_macro, f1_macro, "
              "f1_remap FROM client_evals ORDER BY round, client, view, part",
              6},
        Query{"SELECT round, eval_down, eval_up, exchanges, onboard_down, onboard_up "
              "FROM eval_traffic ORDER BY round",
              6}})
    TESSERA_RETURN_IF_ERROR(add_rows(database_, query, digest));
  return digest_exhibits(digest);
}

Result<std::string> History::figures_digest() {
  Digest digest;
  for (const auto& query :
       {Query{"SELECT round, client, view, part, balanced_accuracy, auroc, ece FROM client_evals "
              "ORDER BY round, client, view, part",
              4},
        Query{"SELECT round, who, view, part, mean, std, micro, min, max, worst10, best10, "
              "precision_macro, f1_macro, f1_remap, loss, balanced_accuracy, auroc, ece FROM evals "
              "ORDER BY round, who, view, part",
              4},
        Query{"SELECT round, client, view, truth, predicted, n FROM confusions "
              "ORDER BY round, client, view, truth, predicted",
              6}})
    TESSERA_RETURN_IF_ERROR(add_rows(database_, query, digest));
  return digest.hex();
}

}  // namespace tessera

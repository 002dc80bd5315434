#include "report/history_reader.hpp"

#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "io/json.hpp"
#include "io/sqlite.hpp"
#include "report/exhibit_reader.hpp"

namespace tessera {
namespace {

constexpr std::string_view kFormat = "4";
constexpr int64_t kMaxClasses = 100000;             // beyond this a label is damage, not data
constexpr size_t kMaxPromises = 10;                 // of differential privacy; there are two kinds
constexpr int64_t kMaxSamples = 1'000'000'000'000;  // of one client: sums of them cannot overflow

// The schema as read, in the order of the reads below.
struct TableSpec {
  const char* name;
  std::vector<const char*> columns;
  const char* order = "";
};
const TableSpec kMeta{"meta", {"key", "value"}};
const TableSpec kClients{
    "clients", {"id", "name", "newcomer", "train", "val", "test"}, " ORDER BY id"};
const TableSpec kLabels{"labels", {"client", "part", "label", "n"}};
const TableSpec kRounds{
    "rounds",
    {"round", "cohort", "dropped", "rejected", "loss", "bytes_down", "bytes_up", "wire_down",
     "wire_up", "sim_seconds", "wall_seconds", "train_seconds", "counted"},
    " ORDER BY round"};
const TableSpec kEvals{
    "evals",
    {"round", "who", "view", "part", "mean", "std", "micro", "min", "max", "worst10", "best10",
     "precision_macro", "f1_macro", "f1_remap", "loss", "balanced_accuracy", "auroc", "ece"},
    " ORDER BY round"};
const TableSpec kClientEvals{
    "client_evals",
    {"round", "client", "view", "part", "n", "correct", "loss", "precision_macro", "f1_macro",
     "f1_remap", "balanced_accuracy", "auroc", "ece"},
    " ORDER BY round, client"};
const TableSpec kConfusions{"confusions",
                            {"round", "client", "view", "truth", "predicted", "n"},
                            " ORDER BY round, client, view, truth, predicted"};
const TableSpec kProblems{"problems", {"round", "client", "kind", "reason"}};

const TableSpec kTraffic{
    "eval_traffic",
    {"round", "eval_down", "eval_up", "exchanges", "onboard_down", "onboard_up"},
    " ORDER BY round"};
const TableSpec kExhibits{"exhibits",
                          {"round", "name", "kind", "title", "rows", "columns", "shape", "value"}};

std::string select(const TableSpec& table) {
  return fmt::format("SELECT {} FROM {}{}", fmt::join(table.columns, ", "), table.name,
                     table.order);
}

// A missing column is a foreign file, not wrong SQL of ours: asked first, so that the error says
// so.
Status check_table(Database& database, const TableSpec& table) {
  std::set<std::string> columns;
  TESSERA_RETURN_IF_ERROR(
      for_each(database, fmt::format("SELECT name FROM pragma_table_info('{}')", table.name),
               [&](const Statement& row) {
                 columns.insert(row.text(0));
                 return ok();
               }));
  for (const char* column : table.columns)
    if (!columns.contains(column))
      return fail(Error::kInvalid,
                  "{}: no table '{}' with a column '{}', so this is not the history of a run; give "
                  "the history.sqlite of a run folder",
                  database.path(), table.name, column);
  return ok();
}

Status check_format(Database& database) {
  std::string format;
  TESSERA_RETURN_IF_ERROR(
      for_each(database, "SELECT value FROM meta WHERE key = 'format'", [&](const Statement& row) {
        format = row.text(0);
        return ok();
      }));
  if (format == kFormat) return ok();
  return fail(Error::kInvalid,
              "{}: history format '{}' where this version reads format {}; use the version that "
              "wrote it",
              database.path(), format.substr(0, 40), kFormat);
}

Result<int64_t> whole_number(const Database& database, const std::string& key,
                             const std::string& text) {
  if (text.empty()) return 0;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    return fail(Error::kInvalid, "{}: meta '{}' is '{}' where a whole number >= 0 belongs",
                database.path(), key, text.substr(0, 40));
  return value;
}

Status check_name(const Database& database, const std::string& what, const std::string& name) {
  if (name.size() <= kMaxName) return ok();
  return fail(Error::kInvalid, "{}: {} has {} bytes where a name of at most {} belongs",
              database.path(), what, name.size(), kMaxName);
}

Result<RunMeta> read_meta(Database& database) {
  std::map<std::string, std::string> facts;
  TESSERA_RETURN_IF_ERROR(for_each(database, select(kMeta), [&](const Statement& row) {
    facts[row.text(0)] = row.text(1);
    return ok();
  }));
  RunMeta meta;
  for (const char* key :
       {"name", "method", "dataset", "model", "partition", "seed", "headline", "metric", "state"})
    TESSERA_RETURN_IF_ERROR(check_name(database, fmt::format("meta '{}'", key), facts[key]));
  meta.name = facts["name"], meta.method = facts["method"], meta.dataset = facts["dataset"];
  meta.model = facts["model"], meta.partition = facts["partition"], meta.seed = facts["seed"];
  meta.config = facts["config"], meta.partition_digest = facts["partition_digest"];
  meta.summary = facts["summary"];
  if (!facts["headline"].empty()) meta.headline = facts["headline"];
  if (!facts["metric"].empty()) meta.metric = facts["metric"];
  if (!facts["state"].empty()) meta.state = facts["state"];
  for (const auto& [key, field] :
       {std::pair{"clients", &meta.clients}, std::pair{"newcomers", &meta.newcomers},
        std::pair{"rounds", &meta.rounds}, std::pair{"parameters", &meta.parameters}}) {
    TESSERA_ASSIGN(*field, whole_number(database, key, facts[key]));
  }
  if (const auto& names = facts["class_names"]; !names.empty()) {
    TESSERA_ASSIGN(meta.class_names,
                   parse_json_names(names, kMaxClasses, database.path() + ", meta 'class_names'"));
    for (const auto& name : meta.class_names)
      TESSERA_RETURN_IF_ERROR(check_name(database, "a class", name));
  }
  if (const auto& sentences = facts["privacy"]; !sentences.empty()) {
    TESSERA_ASSIGN(meta.privacy,
                   parse_json_names(sentences, kMaxPromises, database.path() + ", meta 'privacy'"));
  }
  return meta;
}

Status read_clients(Database& database, RunHistory& run) {
  std::map<int64_t, size_t> position;
  const auto read = for_each(database, select(kClients), [&](const Statement& row) {
    TESSERA_RETURN_IF_ERROR(
        check_name(database, fmt::format("client {}", row.integer(0)), row.text(1)));
    position[row.integer(0)] = run.clients.size();
    run.clients.push_back({row.integer(0),
                           row.text(1),
                           row.integer(2) != 0,
                           row.integer(3),
                           row.integer(4),
                           row.integer(5),
                           {}});
    return ok();
  });
  TESSERA_RETURN_IF_ERROR(read);
  return for_each(database, select(kLabels), [&](const Statement& row) {
    const auto found = position.find(row.integer(0));
    const int64_t label = row.integer(2), n = row.integer(3);
    if (found == position.end() || label < 0 || label >= kMaxClasses || n < 0)
      return fail(Error::kInvalid,
                  "{}: a row of 'labels' (client {}, label {}, n {}) does not fit the clients; the "
                  "file is damaged",
                  database.path(), row.integer(0), label, n);
    if (n > 0) run.clients[found->second].labels[row.text(1)][label] = n;
    return ok();
  });
}

Status read_rounds(Database& database, RunHistory& run) {
  return for_each(database, select(kRounds), [&](const Statement& r) {
    run.rounds.push_back({r.integer(0), r.integer(1), r.integer(2), r.integer(3), r.real(4),
                          r.integer(5), r.integer(6), r.integer(7), r.integer(8), r.real(9),
                          r.real(10), r.real(11), r.integer(12) != 0});
    return ok();
  });
}

Status read_evals(Database& database, RunHistory& run) {
  TESSERA_RETURN_IF_ERROR(for_each(database, select(kEvals), [&](const Statement& r) {
    run.evals.push_back({r.integer(0), r.text(1), r.text(2), r.text(3), r.real(4), r.real(5),
                         r.real(6), r.real(7), r.real(8), r.real(9), r.real(10), r.real(11),
                         r.real(12), r.real(13), r.real(14), r.real(15), r.real(16), r.real(17)});
    return ok();
  }));
  return for_each(database, select(kClientEvals), [&](const Statement& r) {
    run.client_evals.push_back({r.integer(0), r.integer(1), r.text(2), r.text(3), r.integer(4),
                                r.integer(5), r.real(6), r.real(7), r.real(8), r.real(9),
                                r.real(10), r.real(11), r.real(12)});
    return ok();
  });
}

Status read_traffic(Database& database, RunHistory& run) {
  return for_each(database, select(kTraffic), [&](const Statement& r) {
    run.eval_traffic.push_back(
        {r.integer(0), r.integer(1), r.integer(2), r.integer(3), r.integer(4), r.integer(5)});
    return ok();
  });
}

Status read_confusions(Database& database, RunHistory& run) {
  constexpr int64_t kMost = 100;  // a history has none of more classes
  return for_each(database, select(kConfusions), [&](const Statement& r) {
    const int64_t truth = r.integer(3), predicted = r.integer(4), n = r.integer(5);
    if (truth < 0 || truth >= kMost || predicted < 0 || predicted >= kMost || n < 0 ||
        n > kMaxSamples)
      return fail(Error::kInvalid,
                  "{}: a row of 'confusions' (truth {}, predicted {}, n {}) is none; the file is "
                  "damaged",
                  database.path(), truth, predicted, n);
    run.confusions.push_back({r.integer(0), r.integer(1), r.text(2), truth, predicted, n});
    return ok();
  });
}

// Rows are written in order of rounds, so the lowest rowid is the first.
Status read_problems(Database& database, RunHistory& run) {
  const auto sql =
      "SELECT client, kind, count(*), round, substr(reason, 1, 1000), min(rowid) FROM problems "
      "GROUP BY client, kind ORDER BY client, kind LIMIT 1000";
  return for_each(database, sql, [&](const Statement& r) {
    TESSERA_RETURN_IF_ERROR(check_name(database, "the kind of a problem", r.text(1)));
    run.problems.push_back({r.integer(0), r.text(1), r.integer(2), r.integer(3), r.text(4)});
    return ok();
  });
}

// A read transaction on a file that has every table and column.
Result<Database> open_history(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return fail(Error::kNotFound, "{}: no such file; give the history.sqlite of a run folder",
                path);
  TESSERA_ASSIGN(auto database, Database::open(path, Database::Mode::kReadOnly));
  TESSERA_RETURN_IF_ERROR(database.execute("BEGIN"));
  TESSERA_RETURN_IF_ERROR(check_table(database, kMeta));
  TESSERA_RETURN_IF_ERROR(check_format(database));
  for (const auto* table : {&kClients, &kLabels, &kRounds, &kEvals, &kClientEvals, &kConfusions,
                            &kProblems, &kTraffic, &kExhibits})
    TESSERA_RETURN_IF_ERROR(check_table(database, *table));
  return database;
}

}  // namespace

Status for_each_exhibit(const std::string& path,
                        const std::function<Status(const ExhibitRow&)>& visit) {
  TESSERA_ASSIGN(auto database, open_history(path));
  return visit_exhibits(database, visit);
}

Result<RunHistory> read_history(const std::string& path) {
  TESSERA_ASSIGN(auto database, open_history(path));
  RunHistory run;
  TESSERA_ASSIGN(run.meta, read_meta(database));
  TESSERA_RETURN_IF_ERROR(read_clients(database, run));
  TESSERA_RETURN_IF_ERROR(read_rounds(database, run));
  TESSERA_RETURN_IF_ERROR(read_evals(database, run));
  TESSERA_RETURN_IF_ERROR(read_traffic(database, run));
  TESSERA_RETURN_IF_ERROR(read_confusions(database, run));
  TESSERA_RETURN_IF_ERROR(read_problems(database, run));
  TESSERA_ASSIGN(run.exhibits, read_exhibits(database));
  return run;
}

}  // namespace tessera

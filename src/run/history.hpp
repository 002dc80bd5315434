// history.sqlite, written while a run goes on; docs/formats.md describes every table.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "io/sha256.hpp"
#include "io/sqlite.hpp"
#include "run/reports.hpp"
#include "run/roster.hpp"

namespace tessera {

/// "upload", "evaluation" or "join", as in the file.
const char* name_of(Problem::Kind kind);

/// Totals of `rounds`, for the summary.
struct HistoryTotals {
  int64_t bytes_down = 0, bytes_up = 0, wire_down = 0, wire_up = 0, dropped = 0, rejected = 0;
  double sim_seconds = 0, wall_seconds = 0, train_seconds = 0;
  int64_t counted = 0;  // rounds in which the server's state moved on
};

/// What the last evaluation sent beside training: payload bytes, exchanges with newcomers.
struct EvalTraffic {
  int64_t eval_down = 0, eval_up = 0, exchanges = 0, onboard_down = 0, onboard_up = 0;
};

/// What went wrong with one client, each kind apart.
struct ProblemCount {
  ClientId client = 0;
  std::string kind;
  int64_t count = 0;
  int64_t round = 0;   // of the first
  std::string reason;  // of the first
};

class History {
 public:
  /// A new file with the facts of the run; an old one must have been removed.
  static Result<History> create(const std::string& path,
                                const std::vector<std::pair<std::string, std::string>>& meta,
                                const Roster& roster);
  /// An existing file, whole and of this format, cut back to the rounds 1 … `round`. What is left
  /// must be what it was when running_digest() gave `expected`; an evaluation of `round` that came
  /// after that moment is dropped, too. On an error the file stays as it is.
  static Result<History> reopen(const std::string& path, int64_t round,
                                const std::string& expected);
  /// An existing file of this format, for reading only.
  static Result<History> open(const std::string& path);

  /// Rounds come one after the other, from 1.
  Status append_round(const RoundReport& round);
  /// Of the newest round, once. `seconds`: what it took, added to the round's wall time.
  Status append_evaluation(const EvalReport& evaluation, double seconds);
  /// Also of one in which nobody's numbers counted.
  Result<bool> has_evaluation(int64_t round);
  /// SHA-256 (hex) of every row of every table up to now, times too; all but the meta keys that
  /// set() changes. It is chained from round to round, so that only the newest is read for it.
  Result<std::string> running_digest();

  /// Only `state`, `summary`, `metric`, `privacy` and `failures` change in the course of a run.
  Status set(const std::string& key, const std::string& value);
  /// When a run is finished: folds the write-ahead log into the one file, so that it can be copied
  /// and read anywhere. A reader in the way only means that the log stays beside it.
  void settle();
  /// A `meta` value; kInvalid if it is missing.
  Result<std::string> get(const std::string& key);
  /// A `meta` value of a file, as it stands there; empty if there is none, or no such file.
  static std::string fact_at(const std::string& path, const std::string& key);
  /// Rounds in a file, without changing it.
  static Result<int64_t> count_rounds(const std::string& path);
  /// By id, newcomers too.
  Result<std::vector<std::string>> client_names();
  Result<HistoryTotals> totals();
  /// Rounds that were evaluated, ascending, whether or not anybody's numbers counted.
  Result<std::vector<int64_t>> evaluated_rounds();
  /// Zeros before the first evaluation.
  Result<EvalTraffic> last_eval_traffic();
  /// By client, then kind.
  Result<std::vector<ProblemCount>> problems();
  /// Names of the exhibits in a file, as far as it can be read: `tessera report` has made CSV files
  /// of these names.
  static std::vector<std::string> exhibit_names(const std::string& path);

  struct EvalRow {
    int64_t round = 0;
    Summary summary;
  };
  /// Summaries over clients by round; `who`, `view` and `part` as in docs/formats.md.
  Result<std::vector<EvalRow>> evals(const std::string& who, const std::string& view,
                                     const std::string& part);
  /// How often samples of a class were taken for another, over all clients (`who`) that were
  /// evaluated after `round`: by truth, then predicted, without zeros. None but of the last round.
  struct ConfusionRow {
    int64_t truth = 0, predicted = 0, n = 0;
  };
  Result<std::vector<ConfusionRow>> confusion(const std::string& who, const std::string& view,
                                              int64_t round);
  /// Of each client with samples, by id; names as in evals().
  Result<std::vector<ClientMetrics>> client_metrics(const std::string& who, const std::string& view,
                                                    const std::string& part, int64_t round);
  /// The exhibits of an evaluation that are plain figures, matrices of one column whose rows have
  /// names: {exhibit: {row: number, or null for NaN}}.
  Result<nlohmann::json> figures(int64_t round);
  /// Every number that training gave, in a fixed order: all but times and what figures_digest()
  /// has. The same for all versions.
  Status digest(Digest& digest);
  /// SHA-256 (hex) of the metrics that came with format 4, of the means over clients and of the
  /// confusions.
  Result<std::string> figures_digest();

 private:
  explicit History(Database database) : database_(std::move(database)) {}
  static Result<History> open_as(const std::string& path, Database::Mode mode);
  std::string format();
  Status put(const std::string& key, const std::string& value);
  Status write_clients(const Roster& roster);
  Status write_evaluation(const EvalReport& evaluation);
  Status write_confusions(const EvalReport& evaluation);
  Status write_traffic(const EvalReport& evaluation, double seconds);
  Status write_exhibits(const EvalReport& evaluation);
  Status write_problems(int64_t round, std::span<const Problem> problems);
  Status digest_exhibits(Digest& digest);

  Status cut(int64_t round);
  Status drop_evaluation(int64_t round);
  /// The digests of the pictures of an evaluation, which outlive them.
  Status write_images(int64_t round);
  /// Pictures are as they were written; `all`: and none of the last evaluation is missing.
  Status check_images(bool all);
  /// Walks the whole chain and sets the state of the running digest; drops an evaluation that
  /// `expected` does not know.
  Status verify(int64_t round, const std::string& expected);

  Database database_;
  int64_t newest_ = 0;                  // round
  std::string before_;                  // running digest before it
  std::optional<std::string> running_;  // with what it has so far; none: to be computed
};

}  // namespace tessera

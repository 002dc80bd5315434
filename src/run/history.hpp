// history.sqlite, written while a run goes on; docs/formats.md describes every table.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "data/federation.hpp"
#include "io/sha256.hpp"
#include "io/sqlite.hpp"
#include "run/driver.hpp"

namespace tessera {

/// Totals of `rounds`, for the summary.
struct HistoryTotals {
  int64_t bytes_down = 0, bytes_up = 0, wire_down = 0, wire_up = 0, dropped = 0, rejected = 0;
  double sim_seconds = 0, wall_seconds = 0, train_seconds = 0;
};

/// What the last evaluation sent beside training: payload bytes, exchanges with newcomers.
struct EvalTraffic {
  int64_t eval_down = 0, eval_up = 0, exchanges = 0, onboard_down = 0, onboard_up = 0;
};

class History {
 public:
  /// A new file with the facts of the run; an old one must have been removed.
  static Result<History> create(const std::string& path,
                                const std::vector<std::pair<std::string, std::string>>& meta,
                                const Federation& federation);
  /// An existing file, whole and of this format, cut back to the rounds 1 … `round`.
  static Result<History> reopen(const std::string& path, int64_t round);

  Status append_round(const RoundReport& round);
  /// `seconds`: what it took, added to the round's wall time.
  Status append_evaluation(const EvalReport& evaluation, double seconds);
  Result<bool> has_evaluation(int64_t round);
  Status set(const std::string& key, const std::string& value);
  /// When a run is finished: folds the write-ahead log into the one file, so that it can be copied
  /// and read anywhere. A reader in the way only means that the log stays beside it.
  void settle();
  /// A `meta` value; kInvalid if it is missing.
  Result<std::string> get(const std::string& key);
  /// Rounds in a file, without changing it.
  static Result<int64_t> count_rounds(const std::string& path);
  Result<HistoryTotals> totals();
  /// Zeros before the first evaluation.
  Result<EvalTraffic> last_eval_traffic();
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
  /// Every reproducible number, in a fixed order: all but times.
  Status digest(Digest& digest);

 private:
  explicit History(Database database) : database_(std::move(database)) {}
  std::string format();
  Status write_clients(const Federation& federation);
  Status write_evaluation(const EvalReport& evaluation);
  Status write_traffic(const EvalReport& evaluation);
  Status write_exhibits(const EvalReport& evaluation);
  Status digest_exhibits(Digest& digest);

  Database database_;
};

}  // namespace tessera

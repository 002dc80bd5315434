// Runs side by side: means over seeds and a paired test of every method against the best other one.
//
// Every method of a comparison is a baseline for the others, so each row is compared with the other
// row whose headline metric is best (accuracy, or what eval.metric says). Pooled references
// (centralized) are compared but are nobody's baseline: no federation could run them. Several seeds
// are paired by seed; with one seed the clients are the pairs, which says how evenly an advantage
// is spread, not how it repeats.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/text.hpp"
#include "report/history.hpp"

namespace tessera {

/// A finished run as one row of a comparison sees it. `accuracy` is the metric of the comparison,
/// as are all numbers up to `validation`; fractions where it is one.
struct RunFigures {
  std::string label;       // method, or "fedavg (post)"
  std::string run;         // its directory's name
  bool reference = false;  // pooled: never a baseline
  int64_t seed = 0;
  double accuracy = 0, over_clients = 0;  // mean and standard deviation over clients
  double pre = 0, post = 0, worst10 = 0;
  double validation = 0;  // on the validation split; NaN without one
  double bytes_down = 0, bytes_up = 0, sim_seconds = 0, wall_seconds = 0;
  std::string partition;        // digest: clients are paired only within one partition
  std::vector<double> clients;  // the metric of each on its test samples, by id
  std::string failed;           // why the numbers above are not to be shown; usually empty
  bool left_out = false;        // it never ran: `failed` says why it could not
  std::string note;             // what was chosen on validation data; usually empty
};

/// From a run's summary.json and history. `view` is "" for the headline, or pre, post; `metric` a
/// name of base/metric.hpp.
/// kInvalid names the field that the summary lacks; that of a failed run may lack numbers.
Result<RunFigures> make_cell(const nlohmann::json& summary, const RunHistory& history,
                             const std::string& view, const std::string& metric = "accuracy");

/// Means over seeds. A row with a failed run has no numbers, and is nobody's baseline: a mean over
/// the other seeds would be one over those that went well.
struct ComparisonRow {
  std::string label;
  std::vector<std::string> runs;  // that did not fail
  std::string failed;             // "fedavg-s2: why"; usually empty
  bool left_out = false;          // found out before anything ran: no failure of the comparison
  double accuracy = 0;
  std::optional<double> over_seeds;  // standard deviation, n − 1; none for one seed
  double over_clients = 0;
  double pre = 0, post = 0, worst10 = 0;
  double bytes_down = 0, bytes_up = 0, sim_seconds = 0, wall_seconds = 0;
  std::string best_other;    // empty: nothing to compare with
  double difference = 0;     // to best_other, mean over pairs
  double p = 1;              // two-sided; NaN if there are too few pairs
  double low = 0, high = 0;  // the 95 % interval of the difference; NaN likewise
  int64_t needed = 0;        // pairs that would decide at this spread (see PairedTest)
  std::string note;          // what was chosen on validation data; usually empty
};

struct Comparison {
  std::string metric = "accuracy";  // a name of base/metric.hpp
  std::vector<ComparisonRow> rows;  // in the order of the cells
  int64_t seeds = 0;                // of the row with most

  bool by_seed() const { return seeds > 1; }
  size_t failures() const;  // rows that ran and failed
  Table table() const;
  nlohmann::json json() const;  // table.json: see report/compare_report.hpp
  /// Why rows have no numbers and what was chosen for others, a line each; then what ± and the
  /// difference mean.
  std::string caption() const;
  /// kInternal if rows failed; names the first.
  Status verdict() const;
};

Comparison compare_cells(const std::vector<RunFigures>& cells,
                         const std::string& metric = "accuracy");

}  // namespace tessera

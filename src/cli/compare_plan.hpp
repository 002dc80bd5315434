// Which runs a comparison is made of: rows, the settings each row may choose from, seeds.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/variants.hpp"
#include "run/experiment.hpp"

namespace tessera {

struct PlannedRun {
  Experiment experiment;
  std::string name;  // of its directory: "fedavg-s1"
};

/// A method with fixed settings.
struct Candidate {
  std::string label;  // "fedacs p=0.9"
  Variant variant;
  std::vector<PlannedRun> cells;  // one per seed
};

/// A row of the table: a method in a view. With several candidates ("ditto:train.lr=0.1|0.2") the
/// one with the best validation accuracy in that view, on the first seed, becomes the row.
struct PlannedRow {
  std::vector<Candidate> candidates;
  std::string view;        // pre, post; empty: what leads
  bool beside = false;     // not asked for: FedAvg's post view, which stands beside the other
  std::string cannot_run;  // why; empty: it can
  bool tuned() const { return candidates.size() > 1; }
};

/// "4,7" as listed, "3" for 1, 2, 3. kInvalid names --seeds.
Result<std::vector<int64_t>> seed_list(const std::string& list);

/// A label as the name of a directory.
std::string file_name(std::string label);

/// Every cell, its configuration checked before the first one runs; what is wrong with several is
/// said once.
Result<std::vector<PlannedRow>> plan_comparison(const CompareArgs& args);

}  // namespace tessera

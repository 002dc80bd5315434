// Which runs a comparison is made of: rows, the settings each row may choose from, seeds.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "run/experiment.hpp"

namespace tessera {

struct PlannedRun {
  Experiment experiment;
  std::string name;  // of its directory: "fedavg-s1"
};

/// A method with fixed settings.
struct Candidate {
  std::string label;              // "fedacs p=0.9"
  std::vector<PlannedRun> cells;  // one per seed
};

/// A row of the table. With several candidates ("ditto:train.lr=0.1|0.2") the one with the best
/// validation accuracy on the first seed becomes the row.
struct PlannedRow {
  std::vector<Candidate> candidates;
  std::string cannot_run;  // why; empty: it can
  bool tuned() const { return candidates.size() > 1; }
};

/// Every cell, its configuration checked before the first one runs; what is wrong with several is
/// said once.
Result<std::vector<PlannedRow>> plan_comparison(const CompareArgs& args);

}  // namespace tessera

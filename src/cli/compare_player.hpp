// The runs behind a comparison: what is finished is read, the rest resumed or run.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/compare_check.hpp"
#include "cli/compare_plan.hpp"
#include "cli/comparison.hpp"

namespace tessera {

class ComparePlayer {
 public:
  /// All must outlive it; `digests` are those of check_rows. Cells lie below `out`.
  ComparePlayer(const CompareArgs& args, const std::vector<PlannedRow>& rows,
                const std::map<std::string, std::string>& digests, std::string out);

  /// Every cell of the table, in order; of a row with several settings those of the one that is
  /// best on validation. A run that fails in its course, as at too high a rate, gives cells that
  /// say so; any other error is one of the whole. All cells are of the data that are there now:
  /// finished ones of other data, of another configuration or damaged are kInvalid before anything
  /// runs, or run anew with --force.
  Result<std::vector<RunFigures>> play();

 private:
  std::string directory(const PlannedRun& cell) const { return out_ + "/" + cell.name; }
  /// Reads what the table will need and is finished, so that nothing runs in vain.
  Status read_finished_cells();
  Status read_if_finished(const PlannedRun& cell);
  Status same_data(const PlannedRun& cell, const nlohmann::json& summary);
  Result<nlohmann::json> summary_of(const PlannedRun& cell, const std::string& label);
  /// A cell as its row sees it. Views of one run share it.
  Result<RunFigures> cell_of(const PlannedRun& planned, const PlannedRow& row,
                             const std::string& label);
  /// The candidate to go on with; null if all failed, and `failed` has the first one's cell. The
  /// runs of the others stay where they are, for people to look at.
  Result<const Candidate*> choose(const PlannedRow& row, std::vector<RunFigures>& failed);
  /// Cells in all, as far as it is known before settings are chosen.
  size_t count() const { return expected_.size() + open_; }

  const CompareArgs& args_;
  const std::vector<PlannedRow>& rows_;
  const std::map<std::string, std::string>& digests_;
  std::string out_;
  std::set<std::string> expected_, begun_;          // cells by name, for people
  size_t open_ = 0;                                 // and those that a choice will add
  std::map<std::string, nlohmann::json> finished_;  // summaries by directory
  std::map<std::string, std::string> broken_;       // why a run failed, by directory
  std::set<std::string> told_;                      // sections [data] whose data were described
};

}  // namespace tessera

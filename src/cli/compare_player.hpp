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
#include "cli/last_federation.hpp"
#include "engine/mpi/rank_desk.hpp"

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

  /// Before play(), which then finds every cell ended: ranks play them, this one too.
  Status spread(RankDesk& desk);

 private:
  std::string directory(const PlannedRun& cell) const { return out_ + "/" + cell.name; }
  /// Reads what the table will need and is finished, so that nothing runs in vain.
  Status read_finished_cells();
  Status read_if_finished(const PlannedRun& cell);
  Status same_data(const PlannedRun& cell, const nlohmann::json& summary);
  Result<nlohmann::json> summary_of(const PlannedRun& cell, const std::string& label);
  /// By what ranks call them, the cells that may begin: all but those that a choice, still open,
  /// will add.
  Result<std::optional<std::string>> next_cell();
  Status take_ended(const PlannedRun& cell, const Status& how);
  bool has_ended(const PlannedRun& cell) const {
    return finished_.contains(directory(cell)) || broken_.contains(directory(cell));
  }
  Status stopped_in(const std::string& dir) const;
  /// A cell as its row sees it. Views of one run share it.
  Result<RunFigures> cell_of(const PlannedRun& planned, const PlannedRow& row,
                             const std::string& label);
  /// The candidate to go on with; null if all failed, and `failed` has the first one's cell. The
  /// runs of the others stay where they are, for people to look at.
  Result<const Candidate*> choose(const PlannedRow& row, std::vector<RunFigures>& failed);
  Result<const Candidate*> try_candidates(const PlannedRow& row, std::vector<RunFigures>& failed);
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
  std::map<const PlannedRow*, std::pair<const Candidate*, std::vector<RunFigures>>> choices_;
  std::set<std::string> given_;  // cells that ranks were given, by directory
  std::set<std::string> told_;   // sections [data] whose data were described
  LastFederation last_;
};

/// Runs or resumes a cell into `dir`, and with --force starts it anew where it belongs to something
/// else. `tell`: say what its data are.
Result<nlohmann::json> play_planned(const CompareArgs& args, const PlannedRun& cell,
                                    const std::string& dir, const std::string& label,
                                    const std::atomic<bool>* stop, bool tell, LastFederation& last);

/// What ranks call a cell: its name, and what it is to be.
std::string key_of(const PlannedRun& cell);

/// Where the cells of a comparison lie.
std::string comparison_directory(const CompareArgs& args, const std::vector<PlannedRow>& rows);

}  // namespace tessera

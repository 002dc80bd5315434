// The cells of an exhibit: what has a record is not run, the rest is run or resumed.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/evidence.hpp"
#include "cli/last_federation.hpp"

namespace tessera {

class ExhibitPlayer {
 public:
  /// All must outlive it. New records go into `records` and into files.
  ExhibitPlayer(const ReproduceArgs& args, const ExhibitPlan& plan, Records& records);

  /// Column by column, seed by seed. A cell whose data are not there or whose method cannot work
  /// with them is left out, with a remark; one that fails in its course leaves a record that says
  /// so. kInterrupted: the same command goes on from there.
  Status play();

  /// For --spread cells. A cell that may begin, has no record and is not in `given`, to which it is
  /// added; none: others have to end first, or there are no more.
  std::optional<std::string> next_cell(std::set<std::string>& given);
  bool has(const std::string& digest) const { return cells_.contains(digest); }
  std::string label(const std::string& digest) const;
  /// Plays a cell and writes its record, on any rank, whatever the records are. Touches nothing
  /// that the other functions need.
  Status play_apart(const std::string& digest, const std::string& label,
                    const std::atomic<bool>* stop);
  /// How that ended; reads the record.
  Status take_ended(const std::string& digest, const Status& how);
  /// Frees the data of the last cell.
  void let_go() { last_.let_go(); }

  size_t ran() const { return ran_; }  // cells that this call has run
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  struct Cell {
    const ExhibitSlot* slot;
    const ExhibitCandidate* candidate;
    size_t seed;

    const Experiment& experiment() const { return candidate->by_seed[seed]; }
    const std::string& digest() const { return candidate->digests[seed]; }
    bool trains() const { return !slot->row->method.empty(); }
  };
  /// Those of a slot and a seed that are wanted and have neither record nor remark.
  std::vector<Cell> open_cells(const ExhibitSlot& slot, size_t seed) const;
  Status play_cell(const Cell& cell);
  /// Plays it and writes its record; errors as they come.
  Result<CellRecord> attempt(const Cell& cell, const std::string& label,
                             const std::atomic<bool>* stop);
  Status take(const Cell& cell, Result<CellRecord> record);
  Result<CellRecord> run(const Cell& cell, const std::string& label, const std::atomic<bool>* stop);
  std::string record_path(const Cell& cell) const;
  void leave_out(const Cell& cell, const std::string& reason);
  double seconds_to_go() const;  // NaN: nothing is known yet

  const ReproduceArgs& args_;
  const ExhibitPlan& plan_;
  Records& records_;
  std::map<std::string, Cell> cells_;  // all there may be, by digest
  std::set<std::string> left_out_;     // by digest
  size_t ran_ = 0;
  std::vector<std::string> remarks_;
  LastFederation last_;
  std::map<std::string, std::string> missing_;  // why data cannot be loaded, by data_of()
};

}  // namespace tessera

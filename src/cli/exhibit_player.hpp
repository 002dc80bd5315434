// The cells of an exhibit: what has a record is not run, the rest is run or resumed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/evidence.hpp"
#include "data/federation.hpp"

namespace tessera {

class ExhibitPlayer {
 public:
  /// All must outlive it. New records go into `records` and into files.
  ExhibitPlayer(const ReproduceArgs& args, const ExhibitPlan& plan, Records& records);

  /// Column by column, seed by seed. A cell whose data are not there or whose method cannot work
  /// with them is left out, with a remark; one that fails in its course leaves a record that says
  /// so. kInterrupted: the same command goes on from there.
  Status play();

  size_t ran() const { return ran_; }  // cells that this call has run
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  Status play_slot(const ExhibitSlot& slot, size_t seed);
  Status play_cell(const ExhibitSlot& slot, const ExhibitCandidate& candidate, size_t seed);
  /// The federation of an experiment; loaded once for cells that share it and follow each other.
  Result<const Federation*> federation_of(const Experiment& experiment);
  Result<CellRecord> run(const ExhibitSlot& slot, const Experiment& experiment,
                         const std::string& digest);
  Status keep(const ExhibitSlot& slot, CellRecord record);
  void leave_out(const ExhibitSlot& slot, const std::string& reason);
  std::string label(const ExhibitSlot& slot, const Experiment& experiment) const;
  double seconds_to_go() const;  // NaN: nothing is known yet

  const ReproduceArgs& args_;
  const ExhibitPlan& plan_;
  Records& records_;
  size_t ran_ = 0;
  std::vector<std::string> remarks_;
  std::string loaded_;  // data_of() what is loaded; empty: nothing
  std::optional<Federation> federation_;
  std::map<std::string, std::string> missing_;  // why data cannot be loaded, by data_of()
};

}  // namespace tessera

// Rank 0's side of a run that several ranks play: who has which data, and where states are kept.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/federation.hpp"
#include "engine/mpi/mpi_engine.hpp"
#include "run/experiment.hpp"
#include "run/rank_places.hpp"
#include "run/roster.hpp"

namespace tessera {

/// kInvalid: this run needs one process. Every rank asks before it reads anything: none may begin
/// what the others refuse.
Status check_ranks(const Experiment& experiment);
/// What a rank holds of the experiment's federation.
Result<FederationBlock> load_rank_data(const Experiment& experiment, int ranks, int rank);
/// What it tells rank 0 of that: the head of the letter "ready".
nlohmann::json told_of_data(const Experiment& experiment, const FederationBlock& block);

/// Borrows the desk and the experiment. Throws RankLost where it waits for others.
class RankLead {
 public:
  RankLead(RankDesk& desk, const Experiment& experiment) : desk_(desk), experiment_(experiment) {}

  /// The data of rank 0's own clients, once every rank has its own; kInvalid if one of them has
  /// another experiment or other data. `roster` is of all.
  Result<Federation> load(Roster& roster);
  /// After load().
  const Placement& placement() const { return *placement_; }

  /// Every rank makes an empty file for states in its `dir`.
  Status begin();
  /// See LoopParts.
  Result<std::string> save(int64_t round);
  Status restore(int64_t round, const std::string& places);
  /// What the ranks have written to each other, for the summary.
  void tell(nlohmann::json& summary, int64_t rounds) const;

 private:
  RankDesk& desk_;
  const Experiment& experiment_;
  std::optional<Placement> placement_;
  int64_t sent_before_ = 0, received_before_ = 0;  // what came before the first round
};

}  // namespace tessera

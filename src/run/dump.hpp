// debug.dump: a run written down so that a program that shares no code with this one can repeat it
// (tests/parity does). Formats: docs/formats.md.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "run/checkpoint.hpp"
#include "run/experiment.hpp"

namespace tessera {

/// What stays the same for a run. Borrowed.
struct DumpedRun {
  const Experiment& experiment;
  const TrainOptions& train;  // as methods get them
  const Federation& federation;
  const Setup& setup;
};

class Dump {
 public:
  /// Makes the directory, so that what is wrong with it is known before training; kExists unless it
  /// is empty.
  static Result<Dump> open(const std::string& dir);

  /// What the next client (by id) trains on: a copy whose batches are noted. Evaluations use the
  /// client's own data and so leave no trace. Lives as long as this does.
  const ClientData& observe(const ClientData& data);

  /// Before round 1: data, initial model, the server's state.
  Status begin(const DumpedRun& run, const Checkpoint& state);
  /// What was taken since the last call was taken in this round.
  void end_round(int64_t round);
  /// After the last round: batches, states, and last of all run.json.
  Status end(const DumpedRun& run, const Checkpoint& state) const;

 private:
  explicit Dump(std::string dir) : dir_(std::move(dir)) {}
  Status write_data(ClientId id, const ClientData& own) const;
  Status write_batches() const;

  std::string dir_;
  std::deque<ClientData> observed_;  // by id; a deque, because runtimes refer to its elements
  // One entry per batch, in order of round, client and use; `positions_` holds them end to end.
  std::vector<int64_t> rounds_, clients_, parts_, sizes_, positions_;
};

}  // namespace tessera

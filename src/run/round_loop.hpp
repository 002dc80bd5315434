// Rounds, evaluations, history and checkpoints in a directory: the same for a simulation and for a
// server whose clients are elsewhere.
#pragma once

#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "engine/client_host.hpp"
#include "run/checkpoint.hpp"
#include "run/driver.hpp"
#include "run/history.hpp"
#include "run/privacy_spent.hpp"
#include "run/roster.hpp"
#include "run/run.hpp"
#include "run/run_directory.hpp"
#include "run/summary.hpp"

namespace tessera {

/// What a loop works with; everything is borrowed. Functions may be empty.
struct LoopParts {
  const Experiment& experiment;
  const Roster& roster;
  const Session& session;
  Driver& driver;
  /// Where the clients' states are in this process; null for a server: its clients keep their own.
  ClientHost* host = nullptr;
  ClientStore* store = nullptr;
  std::string kernels;  // of the session's network; empty for a server: its clients have their own
  std::string out;      // the directory, which is there and locked
  Awaited awaited = Awaited::kEverybody;         // at evaluations
  std::string go_on = "continue with --resume";  // what a user does after an interruption
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const Progress&)> on_progress = {};
  std::function<void(const std::string&)> on_note = {};
  /// After the state of before round 1 was made and nothing was saved yet.
  std::function<Status()> on_start = {};
  /// Before each round; may wait. kInterrupted ends the loop as a stop does.
  std::function<Status()> before_round = {};
  std::function<void(const RoundReport&)> on_round = {};
  /// Before the last evaluation, and after it.
  std::function<Status()> before_last = {};
  std::function<Status(const EvalReport&)> on_last = {};
  int ranks = 1;  // that play the run
  /// Other ranks write down the states of their clients after `round`; gives where, for the
  /// checkpoint. Comes before the checkpoint itself: a kill in between leaves them a round ahead,
  /// and then they go back.
  std::function<Result<std::string>(int64_t round)> save_ranks = {};
  /// They take up the states of after that round; `ranks` is what save_ranks gave.
  std::function<Status(int64_t round, const std::string& ranks)> restore_ranks = {};
  /// More for the summary, beside what all runs have.
  std::function<void(nlohmann::json&)> on_summary = {};
  /// A checkpoint of everything up to round() is on the disk, and no round is under way.
  std::function<Status()> on_saved = {};
};

/// Used by one thread, but for tell() and client_done(), which are thread-safe.
class RoundLoop {
 public:
  explicit RoundLoop(LoopParts parts);

  /// Clears what an older run has left and begins before round 1.
  Status start();
  /// Goes on from the checkpoint; where nothing was played yet, starts. kInvalid: of another
  /// experiment or other data, or damaged; the message says what to do.
  Status resume();
  /// All rounds that are left. kInterrupted: stopped, everything complete is saved.
  Status play();
  /// Writes summary.json and gives it.
  Result<nlohmann::json> finish();

  int64_t round() const { return round_; }              // completed
  int64_t first_round() const { return first_round_; }  // completed before this process
  History& history() { return *history_; }              // once started or resumed
  /// Tells on_progress; none: the stage is still the same.
  void tell(std::optional<RunStage> stage = std::nullopt);
  /// A client has worked.
  void client_done();

 private:
  Status continue_from(const Checkpoint& checkpoint);
  Status save();
  Status evaluate_if_due();
  // What to do about a round whose server's half failed, or did not: kInternal ends the run.
  Status note_failure(const RoundReport& report);
  // After round_ has moved.
  void note_privacy();
  // Saves what is complete, so that nothing is lost, and says how to go on.
  Status interrupted();
  void note(const std::string& text) const {
    if (parts_.on_note) parts_.on_note(text);
  }
  std::string path(const char* name) const { return parts_.out + "/" + name; }

  const LoopParts parts_;
  const std::string config_;
  std::optional<RunPlace> place_;
  std::optional<History> history_;
  std::optional<CheckpointFile> checkpoint_;

  int64_t round_ = 0, first_round_ = 0;
  double started_ = wall_seconds(), saved_ = wall_seconds();
  bool warned_ = false;
  int64_t failures_ = 0;  // rounds before this one, without a gap, that failed at the server
  double score_ = std::nan(""), loss_ = std::nan("");
  PrivacyMeter privacy_;
  double epsilon_ = std::nan(""), sample_epsilon_ = std::nan("");
  std::mutex progress_;  // guards the following, and on_progress
  int64_t clients_done_ = 0;
  RunStage stage_ = RunStage::kTraining;
};

/// kInvalid with advice if a run in `dir` was made of other data.
Status same_data(const std::string& dir, const std::string& theirs, const std::string& ours);

}  // namespace tessera

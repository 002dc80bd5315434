// Runs an experiment into a directory: rounds, evaluations, history, checkpoints, models, summary.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.hpp"
#include "run/experiment.hpp"

namespace tessera {

class RankDesk;

/// What a run is doing.
enum class RunStage { kLoading, kTraining, kEvaluating, kSummingUp };
/// "loading data", "training", "evaluating", "summing up".
const char* words_of(RunStage stage);

/// Told after every round; for people only, never steers.
struct Progress {
  int64_t round = 0, rounds = 0;
  RunStage stage = RunStage::kTraining;
  std::string metric = "accuracy";
  double score = 0;    // its mean over clients at the last evaluation; NaN before the first
  double loss = 0;     // mean training loss of the round; NaN before the first
  double seconds = 0;  // since the run (or its resumption) began
  double eta = 0;      // seconds to go; NaN when unknown
  double clients_per_second = 0;
  /// Spent so far, of a whole client and of a single sample (run/privacy_spent.hpp); NaN without a
  /// guard that promises it.
  double epsilon = std::nan(""), sample_epsilon = std::nan("");
};

struct RunRequest {
  std::string out;  // directory
  int threads = 1;
  bool resume = false;
  bool force = false;         // overwrite a finished run
  bool through_wire = false;  // encode and decode every message, as a network would
  bool tell_data = true;      // note what became of the data
  /// The federation of the experiment if it has been loaded already; null: it is loaded.
  const Federation* federation = nullptr;
  std::function<void(const Progress&)> on_progress;
  std::function<void(const std::string&)> on_note;  // facts worth a line
  const std::atomic<bool>* stop = nullptr;          // set by Ctrl-C: stop at the next safe point
  RankDesk* ranks = nullptr;  // this is rank 0, and others host clients too; null: one process
};

/// Blocks until done. On success DIR holds config.toml, history.sqlite, checkpoint/, models/,
/// summary.json; the summary is returned (docs/formats.md). Report files are the caller's business.
/// Errors: kExists (a run is there, without force or resume), kInvalid (a run of another
/// experiment; damaged checkpoint or history), kBusy (another process), kIo (disk), kInterrupted
/// (says how to resume). Throws RankLost where there are ranks and one of them is gone or fails.
Result<nlohmann::json> run_experiment(const Experiment& experiment, const RunRequest& request);

}  // namespace tessera

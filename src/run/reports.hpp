// What the round and the evaluation tell those who watch: history, terminal, report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/reason.hpp"
#include "engine/task.hpp"
#include "method/method.hpp"

namespace tessera {

/// Something that went wrong with one client; the run went on without it. Plain values, like all
/// here.
struct Problem {
  enum class Kind {
    kUpload,      // an upload that was rejected: the client went back to the state it had
    kEvaluation,  // an evaluation that failed or whose numbers are not finite: it does not count
    kJoin,        // a newcomer's upload that was not used
    kServer       // it was in a round that the server's half failed in; nobody's counted
  };
  Kind kind = Kind::kUpload;
  ClientId client = 0;
  std::string reason;  // one sentence, without the client
  Reason why = Reason::kOther;
};

/// What happened in a round. Times are for people; everything else is reproducible. Sizes are
/// bytes, times seconds.
struct RoundReport {
  int64_t round = 0;
  /// Clients: chosen for the round; of these lost before they were asked to upload, and those whose
  /// upload was refused or did not come. A dropped one is no problem in `problems`.
  int64_t cohort = 0, dropped = 0, rejected = 0;
  bool counted = false;                  // enough uploads: the server's state moved on
  double loss = 0;                       // mean over accepted uploads; NaN without any
  int64_t bytes_down = 0, bytes_up = 0;  // tensor payloads
  int64_t wire_down = 0, wire_up = 0;    // whole messages
  double sim_seconds = 0;                // simulated clock (docs/experiments.md §6)
  /// Of the whole round, and of the clients' work in it.
  double wall_seconds = 0, train_seconds = 0;
  std::vector<Problem> problems;  // by client
  /// Why the server's half of the method could not make anything of the round: the state before it
  /// stands, and it does not count. Whose uploads were in it are problems of kServer. Empty: it
  /// could.
  std::string failure;
};

/// The metrics of the evaluated clients after a round. Traffic is counted in tensor payloads
/// (bytes) and apart from training: that of evaluating the clients, and that of getting newcomers
/// their models.
struct EvalReport {
  int64_t round = 0;
  /// A client with a problem is in neither list; both may be empty.
  std::vector<Evaluation> clients, newcomers;  // those that count, by id
  int64_t eval_down = 0, eval_up = 0;
  int64_t exchanges = 0;  // training exchanges with each newcomer
  int64_t onboard_down = 0, onboard_up = 0;
  std::vector<Problem> problems;  // by client
  /// As the method gives them; empty for most.
  std::vector<Exhibit> exhibits;
};

}  // namespace tessera

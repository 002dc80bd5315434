// What this machine makes of the built-in networks, a round and the server's work on many models,
// each against what the processor or its memory could do (bench/README.md says how it is counted).
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace tessera::bench {

struct SpeedOptions {
  double seconds = 1;            // for each line, about
  int64_t models = 300;          // of the server's lines; fewer where memory does not hold them
  std::string kernels = "auto";  // as run.kernels
  std::string only;              // lines whose name has this in it; empty: all
  /// Called before each line, with how many are done and how many there are; may be empty.
  std::function<void(const std::string& what, int64_t done, int64_t all)> on_progress;
  const std::atomic<bool>* stop = nullptr;
};

struct SpeedLine {
  std::string what;
  int64_t batch = 0;      // 0: none
  double gflops = 0;      // GFLOP/s; 0 where operations are not what counts
  double reached = 0;     // in `unit`
  std::string unit;       // "of sgemm", "of copy", "x its steps", "x one thread"
  double goal = 0;        // 0: none
  bool at_most = false;   // the goal is an upper limit
  double per_second = 0;  // of `things`; 0: not told
  std::string things;     // "samples", "clients"

  bool meets_goal() const { return goal == 0 || (at_most ? reached <= goal : reached >= goal); }
};

struct SpeedReport {
  std::string processor, kernels, blas;
  double sgemm = 0;  // GFLOP/s, the median of all lines that it was measured beside
  double copy = 0;   // GB/s, read and written
  int64_t models = 0;
  std::vector<SpeedLine> lines;
  std::vector<std::string> notes;  // what was not measured as asked, a sentence each
};

/// One thread, but for the line of a second one. kInvalid: kernels that the processor lacks;
/// kInterrupted: stopped.
Result<SpeedReport> measure_speed(const SpeedOptions& options);

}  // namespace tessera::bench

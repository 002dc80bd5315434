// What a run would cost, from a short trial of one client.
#pragma once

#include "run/experiment.hpp"
#include "run/simulation.hpp"

namespace tessera {

struct Estimate {
  double seconds = 0;                    // of wall time, on `threads` threads
  double memory = 0;                     // bytes, at its peak
  int64_t bytes_down = 0, bytes_up = 0;  // of one client's tensors in round 1; pooled: none
  ServerMemory server;                   // what grows there with the clients
  int64_t bytes_kept = 0;                // that one client keeps from round to round
};

/// Trains and evaluates one client on a few hundred of its samples and reckons up to all clients,
/// rounds and evaluations. Rough: other clients may be slower, and the server's own work counts
/// only in memory. Errors are those of the client's work.
Result<Estimate> estimate_run(const Experiment& experiment, const Federation& federation,
                              int threads);

}  // namespace tessera

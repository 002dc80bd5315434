// What every benchmark here shares: time of this thread only, medians, and yardsticks that are
// measured in turn with the work, so that a loaded machine slows both alike.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <vector>

#include "measure/timing.hpp"

namespace tessera::bench {

/// Registrations, one per file; main.cpp calls them in this order.
void register_models();    // training steps and evaluation against sgemm
void register_vectors();   // copy, weighted mean, Gram matrix
void register_codec();     // safetensors
void register_rounds();    // a federated round on one and two threads
void register_hypernet();  // pFedHT's server against its clients
void register_ham();       // FedHAM's attention step against a plain one
void register_meta();      // second derivatives against plain steps

/// Each iteration times `yardstick` once and `work` as often as fills 20 ms; the latter is what
/// the benchmark reports.
Paired paired(benchmark::State& state, const std::function<void()>& work,
              const std::function<void()>& yardstick);

/// A benchmark with manual time and a fixed number of iterations.
void add(const std::string& name, const std::function<void(benchmark::State&)>& body);

/// A line of the table at the end; target 0 = none.
void summarise(const std::string& what, double reached, const std::string& unit, double target);
void print_summary();

}  // namespace tessera::bench

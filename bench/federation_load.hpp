// A federation under load: what is played, and what was measured of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace tessera::bench {

struct LoadPlan {
  int64_t clients = 0, rounds = 0;
  /// How many of them a round asks; all are there all the time. 0: all.
  int64_t cohort = 0;
  int64_t asked() const { return cohort > 0 ? cohort : clients; }
  /// Of the model's parameters, about; the messages are a little larger.
  int64_t model_bytes = 0;
  /// Rounds between two looks at the server's memory.
  int64_t sample_every = 50;
  /// Seconds for everything; then the processes are ended and the plan has failed.
  double limit = 3600;
  /// Above 0: clients call through a line that breaks so often, each time after `cut_every` bytes.
  int64_t cuts = 0, cut_every = 0;
};

/// Where everything is: a directory of this process alone, and the program under test.
struct LoadPlace {
  std::string dir;      // its ca/ and id-NAME/ are there already
  std::string tessera;  // the program
};

struct MemorySample {
  int64_t round = 0;  // rounds that had ended
  int64_t bytes = 0;  // resident
};

struct LoadFigures {
  LoadPlan plan;
  int64_t parameter_bytes = 0;  // exactly
  double join_seconds = 0;      // until everybody had enrolled: the first task of round 1
  /// From the first task of round 1 to the end of the last round.
  double seconds = 0;
  /// Of each round, in order. A round begins with its first task at a client and ends with the
  /// first task of what follows it. Its tail begins when half of its uploads are acknowledged.
  std::vector<double> round_seconds, tail_seconds;
  std::vector<MemorySample> memory;
  int64_t peak_memory = 0;                  // of the server, resident
  double server_cpu = 0, clients_cpu = 0;   // seconds, in the time of `seconds`
  int64_t messages = 0, message_bytes = 0;  // tasks fetched and replies acknowledged, same time
  int64_t retries = 0;                      // calls that failed in passing
  int64_t cut = 0;                          // connections that the line broke
  int64_t largest_task = 0, largest_reply = 0;
};

/// Plays it: a server process and all clients in this one. Errors: the server or a client failed,
/// a round did not count everybody, or the time was over.
Result<LoadFigures> play_load(const LoadPlan& plan, const LoadPlace& place);

/// Makes a CA, the server's identity and those of clients c0, c1, … in place.dir.
Status make_load_identities(const std::string& dir, int64_t clients);
std::string load_client(int64_t number);

/// Share p of the values are at most it (nearest rank); of at least one value.
double percentile(std::vector<double> values, double p);
/// Least squares over samples after the first fifth of the rounds: bytes per 100 rounds. None with
/// fewer than three samples: then it is 0 and `known` false.
struct MemorySlope {
  bool known = false;
  double per_100_rounds = 0;
  /// What it would be over all rounds, as a share of the mean: below 0.05 counts as flat.
  double share = 0;
};
MemorySlope memory_slope(const std::vector<MemorySample>& samples, int64_t rounds);

}  // namespace tessera::bench

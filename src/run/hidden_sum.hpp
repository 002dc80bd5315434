// The server's side of guard 'secure-aggregation': uploads that clients hold become a sum, in four
// steps of tasks (engine/held_uploads.hpp), each with the round's deadline. Who does not answer a
// step is lost to the round; the sum is of those whose masked upload came, or there is none.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/session.hpp"
#include "privacy/secure_sum.hpp"
#include "run/reports.hpp"

namespace tessera {

/// What a sum is formed from.
struct HiddenRound {
  const Session& session;
  Engine& engine;
  int64_t round = 0, attempt = 0;
  TensorDict expected;                    // form of an upload
  std::map<ClientId, int64_t> exponents;  // who holds an upload, and what it said of its weight
  std::function<Limits()> limits;         // of a step that begins now
  /// Whether chance takes a client in this step: it gets its message and does not answer.
  std::function<bool(ClientId, SumStage)> lost;
  /// Seconds of the simulated clock that an exchange of so many bytes and so much work takes.
  std::function<double(ClientId, int64_t bytes, double cpu_seconds)> clock;
};

/// What became of it.
struct HiddenSum {
  std::vector<ClientId> counted;  // whose uploads are in the sum, ascending; none: there is no sum
  TensorDict mean;                // of these
  double loss = 0;                // the mean of their losses
  std::string failure;            // why there is no sum
  std::vector<Problem> problems;  // those who failed, and all of them if there is no sum
  int64_t dropped = 0;            // lost by chance before their upload came
  /// Whether there is no sum because of what clients did, not by chance alone.
  bool at_fault = false;
  Status interrupted;
  int64_t bytes_down = 0, bytes_up = 0, wire_down = 0, wire_up = 0;
  double sim_seconds = 0;
};

HiddenSum sum_hidden(const HiddenRound& round);

/// Bytes of tensors to and from each of `clients` in a round in which nobody is lost, beside the
/// download.
struct SumTraffic {
  int64_t down = 0, up = 0;
};
SumTraffic hidden_traffic(const TensorDict& expected, const MessageParts& parts, int64_t clients);

}  // namespace tessera

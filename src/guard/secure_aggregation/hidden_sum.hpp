// The server's side of guard 'secure-aggregation': uploads that clients hold become a sum, in four
// steps of tasks (guard/secure_aggregation/held_uploads.hpp), each with the round's deadline. Who
// does not answer a step is lost to the round; the sum is of those whose masked upload came, or
// there is none.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "guard/guard.hpp"
#include "guard/secure_aggregation/held_uploads.hpp"
#include "guard/secure_aggregation/sum/secure_sum.hpp"

namespace tessera {

/// A client that was asked answers with this.
struct SumAnswer {
  ClientId client = 0;
  Status status;
  TensorDict up = {};
  double cpu_seconds = 0;
  int64_t wire_down = 0, wire_up = 0;  // bytes as encoded
};

/// What a sum is formed from.
struct HiddenRound {
  const Guard& guard;
  uint64_t seed = 0;  // of the run
  int64_t round = 0, attempt = 0;
  TensorDict expected;                    // form of an upload
  std::map<ClientId, int64_t> exponents;  // who holds an upload, and what it said of its weight
  /// Carries a step: calls the last argument once for each of the asked, in any order. An answer
  /// has at most so many bytes.
  std::function<void(std::vector<SumAsk>, int64_t most, const std::function<void(SumAnswer)>&)> ask;
  /// Whether chance takes a client in this step: it gets its message and does not answer.
  std::function<bool(ClientId, SumStage)> lost;
  /// Seconds of the simulated clock that an exchange of so many bytes and so much work takes.
  std::function<double(ClientId, int64_t bytes, double cpu_seconds)> clock;
};

/// Who was lost to a sum, and why in one sentence.
struct SumLoss {
  ClientId client = 0;
  std::string reason;
};

/// What became of it.
struct HiddenSum {
  std::vector<ClientId> counted;  // whose uploads are in the sum, ascending; none: there is no sum
  TensorDict mean;                // of these
  double loss = 0;                // the mean of their losses
  std::string failure;            // why there is no sum
  std::vector<SumLoss> problems;  // those who failed, and all of them if there is no sum
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

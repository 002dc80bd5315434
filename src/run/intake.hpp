// The replies of a round. A part of the driver's own; nobody else includes it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "engine/upload_check.hpp"
#include "guard/secure_aggregation/hidden_sum.hpp"
#include "run/driver.hpp"
#include "tensor/trie_sum.hpp"

namespace tessera {

/// What a round makes of its replies, in whatever order they arrive: each upload is checked before
/// the method sees it; a bad one costs that upload and nothing else.
class Driver::Intake {
 public:
  Intake(const Driver& driver, const Setup& setup, std::vector<ClientId> asked);

  /// For engines that sum uploads where the clients are; null where each must be seen here, or
  /// none.
  const SumOrder* order() const;
  /// Bytes that an upload can have.
  int64_t most_upload() const { return check_.most_upload(); }

  void sent(ClientId client, int64_t bytes, const TensorDict& down);
  void take(Reply reply);

  /// When all replies are there: forms the sum that clients hold back single uploads from, or
  /// rejects what is far longer than the others.
  void close(int64_t round, int64_t attempt);
  /// What uploads of this round are changes of, where guards need it.
  const TensorDict& reference() const { return reference_; }

  std::vector<ClientId> accepted() const;
  /// Over accepted uploads; NaN without any. Summed by client, whoever came first.
  double mean_loss() const;
  /// What the method gets to see of the accepted ones.
  Gathered gathered();

  Status interrupted;
  std::vector<Problem> problems;
  int64_t bytes_up = 0, wire_down = 0, wire_up = 0;
  int64_t bytes_down = 0;  // beside the downloads
  double slowest = 0;      // seconds of the simulated clock
  int64_t dropped = 0;     // by chance, in a step of the sum
  /// Where chance alone has left too few for a sum the run goes on; the round does not count.
  bool by_chance() const { return hidden_ && hidden_->counted.empty() && !at_fault_; }

 private:
  /// Of the simulated clock.
  double seconds(ClientId client, int64_t bytes, double cpu_seconds) const;
  /// Of an upload that stays with its client.
  int64_t take_exponent(Reply& reply);
  void sum_held(int64_t round, int64_t attempt);

  const Driver& driver_;
  const AnyMethod& method_;
  const Setup setup_;
  UploadCheck check_;
  SumOrder order_;
  TrieSum sum_;  // where the sum will do
  std::map<ClientId, TensorDict> uploads_;
  std::map<ClientId, int64_t> exponents_;  // of uploads that are summed unseen
  std::optional<HiddenSum> hidden_;        // these, once they are
  bool at_fault_ = false;                  // somebody failed, in training or in the sum
  std::map<ClientId, double> losses_;
  std::map<ClientId, int64_t> down_;
  std::map<ClientId, double> norms_;           // of changes, where long ones are rejected
  TensorDict reference_;                       // the last of them
  std::map<ClientId, TensorDict> references_;  // of downloads: what guards need to open uploads
};

}  // namespace tessera

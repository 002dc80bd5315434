// The clients' side of guard 'secure-aggregation': uploads that stay where they were made, and
// leave only under masks that cancel in the sum of a round.
//
// After its training a client says how much its upload counts, to a factor of two. Then come four
// tasks of kind kGuard, whose one message is named by its step (docs/protocol.md):
//
//     task.down    plan, exponent    keys      shares    request
//     reply.up     keys              shares    masked    reveal
//
// Uploads and secrets are in memory only. A client that is started again in the middle of a round
// has lost them, and so is lost to the round: others hold shares with which the server takes its
// masks off the sum. Secrets on a disk would outlive the sum that they protect.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "guard/guard.hpp"
#include "guard/secure_aggregation/sum/secure_sum.hpp"
#include "privacy/entropy.hpp"

namespace tessera {

/// A message of a secure sum as a tensor of bytes, and back. kInvalid: no such tensor.
Tensor tensor_of_message(const Bytes& message);
Result<Bytes> message_in(const TensorDict& dict, const std::string& name);

/// Which upload is meant, and the message about it.
struct SumAsk {
  ClientId client = 0;
  int64_t round = 0, attempt = 0;
  TensorDict down = {};
};

/// Of all clients of a host. Thread-safe for different clients.
class HeldUploads {
 public:
  /// Borrows the guard.
  explicit HeldUploads(const Guard& guard) : guard_(guard) {}

  /// The upload that was made of ask.down, and its training loss, instead of what was held of the
  /// client before. Gives what the server is told: {"exponent"}. `key` decides the client's share
  /// of noise. kInvalid: numbers that are not finite, or a weight out of range.
  Result<TensorDict> hold(const SumAsk& ask, TensorDict up, double loss, uint64_t key);
  /// What a task of kGuard asks for. kNotFound: nothing is held for its round and attempt.
  /// kInvalid: no message that an honest server sends now, or an upload that cannot be encoded;
  /// then the client's part is over. An upload is masked once: it leaves memory with the masked
  /// one, and no second sum can be had of it.
  Result<TensorDict> answer(const SumAsk& ask);
  /// The round is settled: forgets what is held for it.
  void drop(const SumAsk& ask);

 private:
  struct Held {
    int64_t round = 0, attempt = 0;
    TensorDict up;
    double loss = 0;
    std::vector<std::string> noisy;
    uint64_t key = 0;
    int64_t exponent = 0;
    SystemEntropy entropy;
    std::optional<SecureSumClient> part;  // from the plan on
    bool masked = false;
  };

  std::shared_ptr<Held> find(const SumAsk& ask);
  Result<Bytes> advertise(const SumAsk& ask, Held& held) const;
  Result<Bytes> mask(const SumAsk& ask, Held& held) const;

  const Guard& guard_;
  std::mutex mutex_;  // guards the following
  std::unordered_map<ClientId, std::shared_ptr<Held>> held_;
};

}  // namespace tessera

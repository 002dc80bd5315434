// The server's side of a secure sum: a desk for each step, which collects the clients' messages,
// checks each, and says what every client gets next.
//
// add() either takes a message whole or refuses it with a sentence (kInvalid; kExists for a second
// one of the same client) and is as before: a bad message costs its sender, nobody else. The first
// good message of a client counts. close() is called once, when all have answered or time is up; it
// gives the next desk, or the reason why there can be no sum. Typed messages are expected as the
// codec leaves them (lists ascend). Not thread-safe; no clock in here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/status.hpp"
#include "guard/secure_aggregation/sum/sum_commitment.hpp"
#include "guard/secure_aggregation/sum/sum_messages.hpp"

namespace tessera {

/// There is no sum; nothing was learned but who was there. Another attempt needs a new plan.
struct SumAbort {
  std::string reason;           // one sentence
  std::vector<int64_t> blamed;  // who sent what cannot be: better left out next time
};
/// What close() gives.
template <class T>
using SumNext = std::variant<T, SumAbort>;

/// The sum modulo 2^64 of the vectors of all clients that are counted.
struct SumOutcome {
  std::vector<uint64_t> words;
  std::vector<int64_t> counted;  // ascending; at least sum_threshold() of them
};

/// What the server knows so far. Clients that were lost in a step are in the maps of earlier ones.
struct SumBook {
  SumPlan plan;
  std::shared_ptr<const SumGraph> graph;
  std::map<int64_t, PeerKeys> keys;     // U0: who advertised
  std::map<int64_t, SumShares> shares;  // U1: who shared
  std::vector<int64_t> survivors;       // U2: whose vector is in the sum; ascending when closed
  std::vector<uint64_t> sum;            // of masked vectors
};

/// Step 3: shares come back, the masks come off.
class SumRevealDesk {
 public:
  explicit SumRevealDesk(SumBook book) : book_(std::move(book)) {}
  /// Whom to ask, ascending.
  std::vector<int64_t> asked() const { return book_.survivors; }
  /// For one of those that are asked.
  SumRequest message_for(int64_t client) const;
  Status add(const SumReveal& message);
  SumNext<SumOutcome> close() &&;

 private:
  using Reveals = std::map<int64_t, SumReveal>;
  bool survived(int64_t client) const;
  Status check_shares(const SumReveal& message, SumSecret kind) const;
  SumNext<Secret> reconstruct(int64_t owner, SumSecret kind) const;
  SumNext<Secret> checked_secret(int64_t owner, SumSecret kind) const;
  Status remove_pair_masks(int64_t dropped, const Secret& masking);

  SumBook book_;
  Reveals reveals_;  // U3
};

/// Step 2: vectors come in and are added at once, so memory holds one.
class SumMaskDesk {
 public:
  explicit SumMaskDesk(SumBook book);
  std::vector<int64_t> asked() const;
  SumDelivery message_for(int64_t client) const;
  Status add(const SumMasked& message);
  SumNext<SumRevealDesk> close() &&;

 private:
  SumBook book_;
};

/// Step 1: sealed shares come in.
class SumShareDesk {
 public:
  explicit SumShareDesk(SumBook book) : book_(std::move(book)) {}
  std::vector<int64_t> asked() const;
  SumKeyList message_for(int64_t client) const;
  Status add(const SumShares& message);
  SumNext<SumMaskDesk> close() &&;

 private:
  SumBook book_;
};

/// Step 0: public keys come in.
class SumKeyDesk {
 public:
  /// kInvalid: no possible plan.
  static Result<SumKeyDesk> create(SumPlan plan);
  std::vector<int64_t> asked() const { return book_.plan.clients; }
  /// The plan, the same for all.
  SumPlan message_for(int64_t) const { return book_.plan; }
  Status add(const SumKeys& message);
  SumNext<SumShareDesk> close() &&;

 private:
  explicit SumKeyDesk(SumBook book) : book_(std::move(book)) {}

  SumBook book_;
};

}  // namespace tessera

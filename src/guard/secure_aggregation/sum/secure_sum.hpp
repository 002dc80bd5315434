// A secure sum (Bonawitz et al. 2017; neighbours: Bell et al. 2020): the server learns the sum of
// the clients' vectors modulo 2^64 and of no vector alone, also if some clients are lost on the
// way.
//
//     server                             client
//     plan            ──────────────▶   SecureSumClient::create
//                     ◀── keys ──────   advertise
//     key list        ──────────────▶
//                     ◀── shares ────   share
//     delivery        ──────────────▶
//                     ◀── vector ────   mask
//     request         ──────────────▶
//                     ◀── reveal ────   unmask
//     outcome or abort
//
// Both sides as whole machines from bytes to bytes; the steps themselves are in sum_client.hpp and
// sum_server.hpp. What it protects against and what not: docs/decisions/020-secure-sum.md. Nothing
// in here knows a clock or a network: who drives the server decides when a step has waited enough.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "guard/secure_aggregation/sum/sum_client.hpp"
#include "guard/secure_aggregation/sum/sum_server.hpp"

namespace tessera {

/// One client's part in one sum. After an error it is over: the client is lost to the round, and
/// every further call says so. The entropy must outlive it. Not copyable, since two copies could
/// give two answers; movable; not thread-safe.
class SecureSumClient {
 public:
  SecureSumClient(const SecureSumClient&) = delete;
  SecureSumClient& operator=(const SecureSumClient&) = delete;
  SecureSumClient(SecureSumClient&&) = default;
  SecureSumClient& operator=(SecureSumClient&&) = default;

  /// `plan` as the server sent it. kInvalid: no plan, or one without this client. A client has to
  /// compare words and clients with what it was told elsewhere: plan().
  static Result<SecureSumClient> create(ByteSpan plan, int64_t me, Entropy& entropy);

  const SumPlan& plan() const { return plan_; }
  /// Each once, in this order; kInvalid otherwise, and for messages that no honest server sends.
  Result<Bytes> advertise();
  Result<Bytes> share(ByteSpan key_list);
  /// `words` as fixed_point.hpp makes them, plan().words many.
  Result<Bytes> mask(ByteSpan delivery, std::vector<uint64_t> words);
  Result<Bytes> unmask(ByteSpan request);

 private:
  struct Over {
    std::string why;
  };
  using Step = std::variant<SumAdvertiseStep, SumShareStep, SumMaskStep, SumUnmaskStep, Over>;
  SecureSumClient(SumPlan plan, SumAdvertiseStep step, Entropy& entropy)
      : plan_(std::move(plan)), step_(std::move(step)), entropy_(&entropy) {}
  template <class Wanted>
  Result<Wanted> take(const char* name);
  Status give_up(const Status& status);

  SumPlan plan_;
  Step step_;
  Entropy* entropy_;
};

/// What the server waits for.
enum class SumStage { kKeys, kShares, kVectors, kReveals, kDone, kAborted };

/// The server's part in one sum. Copyable, not thread-safe.
class SecureSumServer {
 public:
  /// kInvalid: check_sum_plan().
  static Result<SecureSumServer> create(SumPlan plan);

  SumStage stage() const { return static_cast<SumStage>(desk_.index()); }
  /// Who has a message coming in this stage and is to answer it, ascending; nobody at the end.
  std::vector<int64_t> asked() const;
  /// The bytes for one of those. kInvalid for others.
  Result<Bytes> message_for(int64_t client) const;
  /// A client's answer; `sender` is who the transport knows it to be. kInvalid or kExists: refused
  /// with one sentence, nothing has changed, the sender may try again while the stage lasts.
  Status receive(int64_t sender, ByteSpan bytes);
  /// All have answered, or the time is up: on to the next stage, or to the end.
  SumStage advance();

  /// Only in kDone.
  const SumOutcome& outcome() const { return std::get<SumOutcome>(desk_); }
  /// Only in kAborted.
  const SumAbort& abort() const { return std::get<SumAbort>(desk_); }

 private:
  using Desk =
      std::variant<SumKeyDesk, SumShareDesk, SumMaskDesk, SumRevealDesk, SumOutcome, SumAbort>;
  explicit SecureSumServer(SumKeyDesk desk) : desk_(std::move(desk)) {}

  Desk desk_;  // in the order of SumStage
};

}  // namespace tessera

// A client that holds to its owner's policy (docs/policy.md) from the first look at an experiment
// to the last byte.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "data/federation.hpp"
#include "engine/grpc/service_host.hpp"
#include "engine/session.hpp"
#include "net/log.hpp"
#include "run/policy_check.hpp"
#include "run/policy_time.hpp"

namespace tessera {

/// Of one client; not thread-safe. Refusals that the owner should know of are logged here; what the
/// server is told of them is what comes back.
class HeldPolicy {
 public:
  /// Borrows the log and `stop`, which may be null.
  HeldPolicy(Policy policy, Log& log, const std::atomic<bool>* stop)
      : policy_(std::move(policy)), log_(log), stop_(stop), pace_(policy_.bandwidth) {}

  /// Before the data are read. `server` as it is called, "HOST:PORT".
  PolicyVerdict judge(const Experiment& experiment, const FederationFacts& facts,
                      const std::string& server);
  /// Once the data and the method are known; after the other one. `member` is the client's number.
  PolicyVerdict judge(const Experiment& experiment, const Federation& federation,
                      const Session& session, ClientId member);
  /// Whether a task of that many bytes may be fetched at all.
  Status may_fetch(int64_t bytes) const;
  /// Fine, or what the server is told.
  Status may_do(const Task& task, int64_t bytes);
  /// The reply as it may leave, or one that says why it may not.
  Reply cleared(const Task& task, Reply reply);
  /// Blocks while the policy has no work for this client. kInterrupted: stopped.
  Status wait_for_hours();
  /// Blocks so long, or until it is stopped.
  void rest(int64_t milliseconds) const { sleep(std::chrono::milliseconds(milliseconds)); }
  /// Blocks as long as so many bytes, just sent or received, have to take.
  void pace(int64_t bytes);

  const Policy& policy() const { return policy_; }
  /// What would leave, a line each; after the first judge(), and complete after the second.
  std::vector<std::string> words() const { return leaving_words(policy_, offer_); }

 private:
  bool stopped() const { return stop_ && stop_->load(); }
  void sleep(std::chrono::milliseconds time) const;

  const Policy policy_;
  Log& log_;
  const std::atomic<bool>* stop_;
  Offer offer_;
  Pace pace_;
};

}  // namespace tessera

// What an experiment exposes, and what attackers got out of it within a budget of time.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "audit/attacks.hpp"

namespace tessera {

/// For people, never steers.
struct AuditProgress {
  std::string stage;  // "round 12 of 40", "server: geiping on …"
  double share = 0;   // of the budget that is spent
  double eta = 0;     // seconds to go at most
};

struct AuditRequest {
  std::vector<Adversary> against{Adversary::kServer, Adversary::kClient, Adversary::kUser};
  std::vector<std::string> only = {};   // names of attacks; empty: all that apply
  std::optional<int64_t> samples = {};  // VictimWork of attacks on uploads; none: several
  std::optional<int64_t> after = {};    // rounds to play; none: all, as far as there is time
  bool first = true, later = true;      // look at the first upload, and at one after the rounds
  bool lies = false;    // gan-inversion: the participant trains on made pictures called wrongly
  double budget = 300;  // seconds
  std::string command;  // for the page
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const AuditProgress&)> on_progress = {};
};

/// Plays rounds of the scene and attacks what is seen. kInterrupted when it was stopped.
Result<AuditFindings> audit(Scene& scene, const AuditRequest& request);

/// One sentence from what was measured. Pictures count as seen where the mean PSNR is more than 1
/// dB above the reference, members as told where an AUC is more than two standard errors and 0.02
/// above it.
std::string verdict_of(const AuditAdversary& adversary);

}  // namespace tessera

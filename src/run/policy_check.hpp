// A policy against what a server asks for: an experiment, a task, and what would answer it.
//
// Pure functions. A refusal is one sentence that names the policy's file and the key, once for each
// end: the server is not told the names and values that the policy keeps from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "data/schema.hpp"
#include "engine/task.hpp"
#include "method/exposure.hpp"
#include "run/experiment.hpp"
#include "run/policy.hpp"

namespace tessera {

/// An input of a table. `values`: of a column of text, how many would be told by name; 0 for
/// numbers. `declared`: they are the experiment's own, so that they tell nothing.
struct OfferedColumn {
  std::string name;
  int64_t values = 0;
  bool declared = false;
};
/// `declared`: names of the columns whose values the experiment says.
std::vector<OfferedColumn> offered_columns(const InputSchema& schema,
                                           const std::vector<std::string>& declared);

/// What joining would mean. Columns and the largest upload are left empty where they are not known
/// yet, and then not checked: a policy may be asked before the data are read, and again afterwards.
struct Offer {
  std::string server;              // as it is called, without the port
  std::string experiment, digest;  // its name, and FederationFacts::config_digest
  std::string method;
  std::vector<Told> told;           // what the method's uploads hold
  std::vector<std::string> guards;  // by name
  std::string seen;                 // for people: what the server sees of an upload behind them
  std::string stays;                // for people: what the method keeps; may be empty
  /// What is promised to this client towards the server itself, and to each of its samples; none:
  /// nothing. Infinite epsilons promise nothing.
  std::optional<double> epsilon, sample_epsilon;
  bool tells_loss = true;              // false: guards keep the training loss of a client back
  int64_t largest_upload = 0;          // bytes; 0: not known
  std::vector<int64_t> sample_shape;   // empty: not known
  int64_t classes = 0;                 // 0: not known
  std::vector<OfferedColumn> columns;  // of a table
};
/// All that follows from the experiment alone. The rest is the caller's: the digest, both epsilons,
/// the largest upload, and what the data say.
Offer offer_of(const Experiment& experiment, const std::string& server);

/// Why not: here for the owner, there for the server.
struct Refusal {
  std::string here, there;
};
/// None: allowed.
using PolicyVerdict = std::optional<Refusal>;
/// kInvalid with the owner's sentence; fine without a refusal.
Status status_here(const PolicyVerdict& verdict);
/// kInvalid with the server's sentence; fine without a refusal.
Status status_there(const PolicyVerdict& verdict);

/// The first of the policy's keys that the offer does not meet. Samples themselves leave under no
/// policy: a method that sends them is refused whatever the file says.
PolicyVerdict check_offer(const Policy& policy, const Offer& offer);
/// Before the task is done, with its size as encoded. An evaluation whose answer may not leave is
/// refused here, unless it is the last: that one is done, because the client keeps its own model
/// and figures by it, and check_reply() refuses the answer.
PolicyVerdict check_task(const Policy& policy, const Task& task, int64_t bytes);

/// Without what the policy does not allow and the protocol lets a client leave out: the confusion
/// tables and the notes of an evaluation. No number changes by it.
Reply stripped(const Policy& policy, const Offer& offer, Reply reply);
/// Before an answer leaves, with its size as encoded. What cannot be left out is refused as a
/// whole: evaluations, a training loss, a message that is too large. A reply that only says why the
/// task failed is allowed.
PolicyVerdict check_reply(const Policy& policy, const Offer& offer, const Reply& reply,
                          int64_t bytes);

/// What would leave and what would not, a line each, in words: for preflight, before anything does.
std::vector<std::string> leaving_words(const Policy& policy, const Offer& offer);

/// The names of this program's methods and guards, plugins' too.
PolicyNames policy_names();
/// read_policy() with these; an empty path gives the default.
Result<Policy> load_policy(const std::string& path);

}  // namespace tessera

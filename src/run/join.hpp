// `tessera join`: one client of a real federation, with its own data.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.hpp"
#include "engine/grpc/transport.hpp"
#include "engine/task.hpp"
#include "net/log.hpp"
#include "run/policy.hpp"

namespace tessera {

struct JoinRequest {
  TransportOptions transport;
  /// The client's file, or the directory of the set; empty: as the set is found on this machine.
  std::string data;
  /// The network's file on this machine, where [model] file names one.
  std::string model_file;
  /// What the client remembers, its audit log and its model. One of another federation is refused.
  std::string state;
  Log* log = nullptr;  // never null
  /// What its owner lets leave; the strict default where no file says otherwise.
  Policy policy = {};
  /// Asked before something leaves the machine that has other names, types or shapes than what was
  /// agreed to, with the text of leaving_text(); false ends it all. Empty: nobody is asked.
  std::function<bool(const std::string& text)> consent;
};

/// Blocks until the federation has ended, and gives what came of it for this client: name, tasks
/// done, where the model is, its own figures. Can be stopped and started again at any time and for
/// any while. kInvalid: refused, or data that do not fit; says what differs. kInterrupted: stopped.
Result<nlohmann::json> join_federation(const JoinRequest& request);

/// What preflight tells: each step's name and its outcome, in order; ends at the first that fails.
struct PreflightStep {
  std::string what;
  Status outcome;
  std::string detail;                   // of a good one
  std::vector<std::string> words = {};  // further lines for people
};
/// Tries everything that join would do before its first task, and changes nothing.
std::vector<PreflightStep> preflight(const JoinRequest& request);

/// What a reply would take out of this machine: names, types, shapes, bytes, and the words of an
/// error. The same text means the same content but for the numbers.
std::string leaving_text(const Reply& reply, const MessageParts& parts = {});

}  // namespace tessera

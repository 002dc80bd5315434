// `tessera serve`: the rounds of an experiment with clients that are elsewhere.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.hpp"
#include "engine/grpc/server.hpp"
#include "net/log.hpp"
#include "run/experiment.hpp"
#include "run/run.hpp"

namespace tessera {

struct ServeRequest {
  /// Holds the run (as `tessera run --out` would), federation.json, spool/ and audit.jsonl. One
  /// that holds a federation goes on with it.
  std::string state;
  ServerOptions server;
  /// Where /metrics is answered; empty: nowhere.
  std::string metrics_address;
  /// How long a finished federation tells clients so that were not there at its end; seconds.
  double linger = 60;
  Log* log = nullptr;  // never null
  std::function<void(const Progress&)> on_progress;
  /// Told once the server listens: its address.
  std::function<void(const std::string&)> on_listening;
  /// Set from outside: stops at once; started again, the federation goes on.
  const std::atomic<bool>* stop = nullptr;
};

/// Blocks until the last round is played, and gives the summary. kInvalid: an experiment that
/// cannot be served (a pooled reference, predictions of data that are not here), a state of another
/// one or of a newer version. kBusy: another process has the state or the port. kInterrupted:
/// stopped. Whatever a client does or leaves undone is an outcome of its round and no error.
Result<nlohmann::json> serve_federation(const Experiment& experiment, const ServeRequest& request);

/// Who belongs to the federation of an experiment: [serve] members and newcomers, or the numbers of
/// the set's clients. kInvalid names the key.
struct MemberNames;
Result<MemberNames> members_of(const Experiment& experiment);

}  // namespace tessera

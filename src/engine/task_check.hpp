// A client is its own judge: what a server may ask of it, by the experiment it agreed to.
#pragma once

#include <optional>

#include "base/status.hpp"
#include "engine/session.hpp"
#include "engine/task.hpp"

namespace tessera {

/// Whether this run can have such a task for that client, whatever came before: its kind against
/// what the client is, its round and attempt against the experiment. kInvalid in one sentence. The
/// same on every engine; what depends on earlier tasks is the TaskLedger's. `last`: the last round
/// that may be trained; none: rounds are not looked at, because who asks is this very program.
Status check_task(const Session& session, const Task& task, std::optional<int64_t> last);

/// What downloads of one client look like, learned from a server that the client makes for itself.
/// Borrows the session. Thread-safe.
class DownloadForms {
 public:
  /// Throws what the method throws.
  DownloadForms(const Session& session, ClientId client);

  /// The task's download as the method gave it, out of its frame if it came in one. kInvalid: too
  /// large for this method, or with other fields, types or shapes than it sends; names the field.
  Result<TensorDict> open(const Task& task) const;

 private:
  const Session& session_;
  const ClientId client_;
  ServerStatePtr fresh_;
};

}  // namespace tessera

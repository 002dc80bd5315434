// checkpoint/state.sqlite: everything a run needs to go on, written round by round: what changed,
// in one transaction.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "io/sqlite.hpp"
#include "method/method.hpp"

namespace tessera {

/// The facts of a checkpoint beside the states.
struct CheckpointFacts {
  int64_t round = 0;           // completed
  std::string config;          // the resolved experiment; another one must not continue it
  std::string data_digest;     // of every value it was computed from
  std::string history_digest;  // running digest of the history up to here
};

struct Checkpoint {
  CheckpointFacts facts;
  TensorDict server;
  std::vector<std::pair<ClientId, TensorDict>> clients;  // by id
};

/// What is written at once.
struct CheckpointChanges {
  TensorDict server;  // all of it, but of what there is one of per client only what changed
  std::vector<std::pair<ClientId, std::optional<TensorDict>>> clients;  // nothing: forgotten
};

/// The file inside a run's directory.
std::string checkpoint_path(const std::string& dir);

/// A kill at any moment leaves the checkpoint before or the one after, never a mixture. Facts and
/// states are sealed by digests, so that a damaged file never loads as the one that was saved.
class CheckpointFile {
 public:
  /// An empty one; what was there must have been removed.
  static Result<CheckpointFile> create(const std::string& dir);
  /// An existing one with what it holds. kNotFound without one; kInvalid when it is damaged or of
  /// another version.
  static Result<std::pair<CheckpointFile, Checkpoint>> open(const std::string& dir);

  Status save(const CheckpointFacts& facts, const CheckpointChanges& changes);
  /// Folds the write-ahead log into the one file.
  void settle();

 private:
  /// Whose: the server's own, what it has of a client, or a client's own.
  enum class Owner : int64_t { kServer, kServerOfClient, kClient };
  using Place = std::pair<Owner, ClientId>;

  explicit CheckpointFile(Database database) : database_(std::move(database)) {}
  Status write(Place place, const TensorDict& state);
  Status erase(Place place);
  /// Of the facts and of every state: what must be there, and nothing else.
  std::string seal(const CheckpointFacts& facts) const;

  Database database_;
  std::map<Place, std::string> digests_;  // of what is stored
};

/// A whole checkpoint as one safetensors file, for other programs (debug.dump).
Status save_state(const std::string& path, const Checkpoint& checkpoint);

}  // namespace tessera

// checkpoint/state.sqlite: everything a run needs to go on, written round by round: what changed,
// in one transaction.
#pragma once

#include <array>
#include <functional>
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
  std::string ranks;           // where other ranks keep their clients' states (JSON); "": nowhere
};

struct Checkpoint {
  CheckpointFacts facts;
  TensorDict server;
  std::vector<std::pair<ClientId, TensorDict>> clients;  // by id; none if they are read later
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
  /// What open() does with clients' states: all at once, or checked now and read one by one later.
  enum class Clients { kRead, kLater };

  /// An empty one; what was there must have been removed.
  static Result<CheckpointFile> create(const std::string& dir);
  /// An existing one with what it holds. kNotFound without one; kInvalid when it is damaged or of
  /// another version.
  static Result<std::pair<CheckpointFile, Checkpoint>> open(const std::string& dir,
                                                            Clients clients = Clients::kRead);
  /// Clients' states, by id, one in memory at a time. Errors of `take`, and kInvalid as of open().
  Status read_clients(const std::function<Status(ClientId, TensorDict)>& take);

  /// Costs what the changes cost, however much is stored.
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
  /// The same as format 2 had it, from a walk over all states.
  std::string seal_of_format_2(const CheckpointFacts& facts) const;
  /// What is stored at a place; empty: nothing is.
  void note(Place place, const std::string& digest);
  /// Every state, whole, in the order of places. Wrong digests are kInvalid.
  using OnState = std::function<Status(Place, const std::string& digest, Bytes bytes)>;
  Status walk(const char* which, const OnState& take);
  Status check_and_read(Clients clients, Checkpoint& out);

  Database database_;
  std::map<Place, std::string> digests_;  // of what is stored
  std::array<uint64_t, 4> sum_{};         // of a digest per place: known without a walk over them
};

/// A whole checkpoint as one safetensors file, for other programs (debug.dump).
Status save_state(const std::string& path, const Checkpoint& checkpoint);

}  // namespace tessera

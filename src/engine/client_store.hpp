// What clients remember between rounds: a state each, and a next one that waits for the server's
// word.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "engine/state_shelf.hpp"
#include "method/method.hpp"

namespace tessera {

/// In memory, as far as a limit allows, or in a directory: then everything is on disk, whole,
/// before a call returns, so that a client that dies goes on where it was. Thread-safe. Who never
/// trained has no state: it costs nothing until then. In memory without a limit nothing fails; else
/// errors name the file or the directory: kIo, or kInvalid for one that is damaged.
class ClientStore {
 public:
  /// In memory.
  ClientStore() = default;
  /// In `dir`, which is made if there is none; reads settled and waiting states that are there.
  /// Other files are left alone. kInvalid: a state without a digest or without its round.
  static Result<std::unique_ptr<ClientStore>> open(const std::string& dir);

  /// Of settled and waiting states no more than this stays in memory; the others wait in a file
  /// without a name, which ends with the process: what must last is the checkpoint's. Changes no
  /// bit of a state.
  void limit(ShelfLimit limit);
  /// States that are on the disk for lack of memory.
  int64_t on_disk() const;

  /// The settled state; empty: never trained. What waits is not seen. Tensors are shared with the
  /// store and must not be written to. Throws std::runtime_error if one cannot be read back.
  std::optional<TensorDict> get(ClientId client) const;
  /// The next state, from this round and attempt. Replaces what was waiting; get() is as before.
  Status stage(ClientId client, int64_t round, int64_t attempt, TensorDict next);
  /// The state that waits, if it is of this round and attempt, becomes the client's, or is
  /// forgotten; of an older or unknown attempt nothing happens. So it may be repeated. True if the
  /// client's state changed.
  Result<bool> settle(ClientId client, int64_t round, int64_t attempt, bool accepted);
  /// Back to where it never trained: neither settled nor waiting. Fine for who has nothing.
  Status forget(ClientId client);
  /// As settled; for checkpoints. What waits stays; it is no change in the sense of changed().
  Status restore(ClientId client, TensorDict state);

  /// Those with a state, ascending.
  std::vector<ClientId> ids() const;
  /// Those whose settled state changed since saved() or, without a state now, was forgotten.
  std::set<ClientId> changed() const;
  /// All settled states have been written down as they are.
  void saved();

 private:
  /// Counts only for the settling of exactly this round and attempt.
  struct Waiting {
    int64_t round = 0, attempt = 0;
  };
  std::string path(ClientId client, const char* suffix) const;
  /// Both do nothing in memory. Callers hold the mutex.
  Status write(ClientId client);
  Status remove(ClientId client, const char* suffix) const;

  std::string dir_;  // empty: in memory
  mutable std::mutex mutex_;
  mutable StateShelf shelf_;  // reading brings states back
  std::map<ClientId, Waiting> waiting_;
  std::set<ClientId> changed_;
};

}  // namespace tessera

// States of clients in memory as far as they fit, the others on the disk.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "io/scratch_file.hpp"
#include "tensor/fields.hpp"
#include "tensor/per_client.hpp"

namespace tessera {

/// How much may stay in memory. Without a limit nothing is ever written.
struct ShelfLimit {
  int64_t bytes = INT64_MAX;  // of tensors
  std::string dir;            // where the others go, in a file without a name; must exist
};

/// Those longest unused go first; a state that comes back has the same bits. Two for each client:
/// what is settled, and what waits. Not thread-safe.
class StateShelf {
 public:
  enum class Kind { kSettled, kWaiting };
  using Key = std::pair<Kind, ClientId>;

  void limit(ShelfLimit limit) { limit_ = std::move(limit); }

  /// Replaces what was there. Keeps no more memory alive than the tensors need. kIo: the disk.
  Status put(Key key, TensorDict state);
  /// Empty: nothing is there. Stays on the shelf, in memory if there is room.
  Result<std::optional<TensorDict>> get(Key key);
  bool contains(Key key) const { return slots_.contains(key); }
  /// What is under `from` is from now on under `to`, in place of what was there.
  void move(Key from, Key to);
  /// False: there was nothing.
  bool erase(Key key);
  /// Clients, ascending.
  std::vector<ClientId> ids(Kind kind) const;

  int64_t bytes_in_memory() const { return bytes_; }
  int64_t on_disk() const { return on_disk_; }  // states

 private:
  struct Slot {
    TensorDict state;  // empty while it is on the disk
    int64_t bytes = 0;
    std::optional<ScratchFile::Piece> piece;
    std::list<Key>::iterator used;  // in used_; of those in memory
  };
  Status make_room();
  void place(Key key, Slot& slot, TensorDict state);
  void clear(Slot& slot);

  ShelfLimit limit_;
  std::optional<ScratchFile> file_;
  std::map<Key, Slot> slots_;
  std::list<Key> used_;  // longest unused first
  int64_t bytes_ = 0, on_disk_ = 0;
};

}  // namespace tessera

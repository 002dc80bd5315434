// One thing per client in a server's state: the one form of it.
//
// Clients that never left anything have no entry, so a state grows with those who took part. What
// changed since the last checkpoint is known, so a checkpoint writes that and nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace tessera {

/// 0 … clients − 1; newcomers follow. Never negative where it comes from outside.
using ClientId = int64_t;

/// A field like any other (tensor/fields.hpp): entries are named "<field>@<id>". Not thread-safe.
template <class T>
/// A field like any other (tensor/fields.hpp): entries are named "<field>@<id>". A value: copies
/// are independent, but tensors in entries are handles. Not thread-safe.
class PerClient {
 public:
  PerClient() = default;
  /// `like` shows what an entry looks like, for checks of restored states; it is no entry itself.
  explicit PerClient(T like) : like_(std::move(like)) {}

  /// What the client left last; nullptr if it left nothing. Valid until the next put().
  const T* find(ClientId id) const {
    const auto at = entries_.find(id);
    return at == entries_.end() ? nullptr : &at->second;
  }
  bool contains(ClientId id) const { return entries_.contains(id); }
  /// Replaces what was there. Counts as a change even if the value is the same.
  void put(ClientId id, T value) {
    entries_.insert_or_assign(id, std::move(value));
    changed_.insert(id);
  }

  /// Clients with an entry, not clients of the run.
  bool empty() const { return entries_.empty(); }
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  /// Those who left something, ascending.
  std::vector<ClientId> ids() const {
    std::vector<ClientId> out;
    for (const auto& [id, value] : entries_) out.push_back(id);
    return out;
  }
  /// Pairs of id and value, by id ascending: sums over clients have one order everywhere.
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  /// Empty: entries of a restored state are not compared with anything.
  const std::optional<T>& like() const { return like_; }
  /// Entries put since the last call of saved(), or ever. All of them have an entry: none are
  /// removed.
  const std::set<ClientId>& changed() const { return changed_; }
  /// The entries have been written down as they are.
  void saved() { changed_.clear(); }

 private:
  std::map<ClientId, T> entries_;
  std::set<ClientId> changed_;
  std::optional<T> like_;
};

}  // namespace tessera

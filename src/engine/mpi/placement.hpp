// Which rank hosts which client: a function of three numbers, the same on every rank.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/trie_sum.hpp"

namespace tessera {

/// Ids 0 … clients − 1 are dealt in ranges of about equal length, and so are those of the newcomers
/// that follow. Ranges of clients begin at multiples of a power of two that is small beside them:
/// they are made of few aligned blocks, whose sums can be formed apart (tensor/trie_sum.hpp).
class Placement {
 public:
  Placement(int ranks, int64_t clients, int64_t newcomers);

  int ranks() const { return static_cast<int>(clients_.size()); }
  int rank_of(ClientId id) const;
  bool hosts(int rank, ClientId id) const {
    return clients_of(rank).holds(id) || newcomers_of(rank).holds(id);
  }
  /// May be empty: there are more ranks than clients.
  IdRange clients_of(int rank) const { return clients_[static_cast<size_t>(rank)]; }
  IdRange newcomers_of(int rank) const { return newcomers_[static_cast<size_t>(rank)]; }

 private:
  std::vector<IdRange> clients_, newcomers_;  // by rank
};

}  // namespace tessera

// A weighted mean that does not care who adds what when.
//
// Client ids are the leaves of a binary trie (by their bits, the lowest last), and the sum of a
// subtree is the sum of its two halves. So the result is a function of the parts alone: any order
// of arrival, and any thread, rank or process that sums an aligned block of ids by itself, gives
// the same bits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tensor/per_client.hpp"
#include "tensor/weights.hpp"

namespace tessera {

/// Knows from the start who may add something. A subtree is summed as soon as nothing more can come
/// of it, so that parts that arrive about in order of their ids take memory for O(log n) sums. Not
/// thread-safe.
class TrieSum {
 public:
  /// `ids`: who may add something; not negative, each once.
  explicit TrieSum(std::vector<ClientId> ids);

  /// Each id once, in any order: it adds a part, or will not add any.
  void add(ClientId id, Weighted part);
  void skip(ClientId id);

  /// Once every id has added or will not: their mean with the sum of the weights. A single part is
  /// itself, bit for bit. Empty if nobody added anything, or weights that sum to 0.
  std::optional<Weighted> mean() const;
  /// Sums held at the moment, for tests of memory.
  int64_t held() const { return static_cast<int64_t>(done_.size()); }

 private:
  /// A single part as it came, or Σ weight · value in float64.
  struct Sum {
    std::optional<Weighted> single;
    Tensor w, b;
    double weight = 0;
  };
  using Node = std::pair<int, ClientId>;  // level, and the id's bits above that level

  static Sum merged(const Sum& low, const Sum& high);
  void finish(ClientId id, std::optional<Sum> sum);
  bool expects(Node node) const;

  std::vector<ClientId> ids_;  // ascending
  int levels_ = 0;             // of the trie above its leaves
  at::ScalarType type_ = at::kFloat;
  std::map<Node, std::optional<Sum>> done_;  // finished subtrees whose sibling is not
};

}  // namespace tessera

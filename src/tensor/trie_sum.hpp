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

/// The ids first … end − 1.
struct IdRange {
  ClientId first = 0, end = 0;
  bool holds(ClientId id) const { return first <= id && id < end; }
  bool operator==(const IdRange&) const = default;
};

/// The sum of a subtree: of the ids whose bits above `level` are `prefix`.
struct TriePart {
  int level = 0;
  ClientId prefix = 0;
  /// A single part as it came, or, of several, Σ weight · value in float64 and Σ weight. Neither:
  /// nobody of the subtree has added anything.
  std::optional<Weighted> single = std::nullopt, sum = std::nullopt;
};

/// Knows from the start who may add something. A subtree is summed as soon as nothing more can come
/// of it, so that parts that arrive about in order of their ids take memory for O(log n) sums. Not
/// thread-safe.
class TrieSum {
 public:
  /// `ids`: who may add something; not negative, each once.
  explicit TrieSum(std::vector<ClientId> ids);
  /// The sum of `within` alone: `ids` are those of them that may add something, and only subtrees
  /// that lie inside are summed. For parts(), not for mean().
  TrieSum(std::vector<ClientId> ids, IdRange within);

  /// Each id once, in any order: it adds a part, or will not add any.
  void add(ClientId id, Weighted part);
  void skip(ClientId id);
  /// What was summed elsewhere, instead of the ids below it.
  void add(TriePart part);
  /// Once every id has added or will not: the sums of the largest subtrees inside, O(log n) of
  /// them; handed over, so that nothing is left here.
  std::vector<TriePart> take_parts();

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
    bool ours = false;  // w and b were made here: nobody else sees them
  };
  using Node = std::pair<int, ClientId>;  // level, and the id's bits above that level

  /// Terms that were made here are used up.
  static Sum merged(const Sum& low, const Sum& high);
  /// Of a leaf, or of a subtree that is whole.
  void finish(Node node, std::optional<Sum> sum);
  bool expects(Node node) const;
  bool inside(Node node) const;

  std::vector<ClientId> ids_;  // ascending
  int levels_ = 0;             // of the trie above its leaves
  std::optional<IdRange> within_;
  at::ScalarType type_ = at::kFloat;
  std::map<Node, std::optional<Sum>> done_;  // finished subtrees whose sibling is not
};

}  // namespace tessera

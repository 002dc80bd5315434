// A sum of uploads that does not care who adds what when: weighted means, and totals.
//
// Client ids are the leaves of a binary trie (by their bits, the lowest last), and the sum of a
// subtree is the sum of its two halves. So the result is a function of the parts alone: any order
// of arrival, and any thread, rank or process that sums an aligned block of ids by itself, gives
// the same bits.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tensor/message_parts.hpp"
#include "tensor/per_client.hpp"

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
  /// A single upload as it came, or, of several, float64: Σ weight · value of means, Σ weight, and
  /// Σ value of totals. Neither: nobody of the subtree has added anything.
  std::optional<TensorDict> single = std::nullopt, sum = std::nullopt;
};

/// What is added: uploads of this form (numbers mean nothing), each part as `parts` say.
struct Addends {
  TensorDict form;
  std::shared_ptr<const MessageParts> parts;
};

/// Knows from the start who may add something. A subtree is summed as soon as nothing more can come
/// of it, so that parts that arrive about in order of their ids take memory for O(log n) sums. Not
/// thread-safe.
class TrieSum {
 public:
  /// `ids`: who may add something; not negative, each once.
  TrieSum(std::vector<ClientId> ids, Addends addends);
  /// The sum of `within` alone: `ids` are those of them that may add something, and only subtrees
  /// that lie inside are summed. For parts(), not for result().
  TrieSum(std::vector<ClientId> ids, Addends addends, IdRange within);

  /// Each id once, in any order: it adds an upload, which must have the form, or will not add any.
  void add(ClientId id, TensorDict upload);
  void skip(ClientId id);
  /// What was summed elsewhere, instead of the ids below it.
  void add(TriePart part);
  /// Once every id has added or will not: the sums of the largest subtrees inside, O(log n) of
  /// them; handed over, so that nothing is left here.
  std::vector<TriePart> take_parts();

  /// Once every id has added or will not: the sum as one upload, means with the sum of their
  /// weights. A single upload is itself, bit for bit. A mean of weight 0 is all zeros; where every
  /// mean is, or nobody added anything, there is no sum.
  std::optional<TensorDict> result() const;
  /// Sums held at the moment, for tests of memory.
  int64_t held() const { return static_cast<int64_t>(done_.size()); }

 private:
  /// An upload as it came, or numbers in float64 with the weights of means apart.
  struct Partial {
    bool single = false;
    bool ours = false;  // numbers were made here: nobody else sees them
    TensorDict numbers;
    std::map<std::string, double> weights;
  };
  using Node = std::pair<int, ClientId>;  // level, and the id's bits above that level

  const MessagePart& part(const std::string& name) const;
  Partial opened(TensorDict upload, bool single) const;
  /// Terms that were made here are used up.
  Partial merged(const Partial& low, const Partial& high) const;
  /// Of a leaf, or of a subtree that is whole.
  void finish(Node node, std::optional<Partial> sum);
  bool expects(Node node) const;
  bool inside(Node node) const;

  std::vector<ClientId> ids_;  // ascending
  Addends addends_;
  int levels_ = 0;  // of the trie above its leaves
  std::optional<IdRange> within_;
  std::map<Node, std::optional<Partial>> done_;  // finished subtrees whose sibling is not
};

}  // namespace tessera

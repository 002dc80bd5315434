// What each tensor of an upload means, and how uploads may be added: derived from the types that a
// method gives its fields (method/message.hpp), and all that guards, sums and lists of what leaves
// a client go by. Nobody looks at a name or a shape for it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tensor/fields.hpp"

namespace tessera {

/// kTrained: learned from the client's samples. kStatistic: computed from them, not trained.
/// kCount: how many there are. kOpen: nothing of anybody's data.
enum class Meaning { kTrained, kStatistic, kCount, kOpen };

/// How a part is added to those of other clients. kEach: it is not. kMean: by the weighted mean,
/// whose weight is a part of its own (kWeight). kTotal: plainly. kShared: all have the same.
enum class Adds { kEach, kMean, kWeight, kTotal, kShared };

/// What a trained part was before. kSent: what the client was sent. kOwn: something that the server
/// has not sent. kChange, kGradient: the part itself is the difference, or the slope.
enum class Before { kSent, kOwn, kChange, kGradient };

/// One tensor of an upload.
struct MessagePart {
  Meaning meaning = Meaning::kOpen;
  Adds adds = Adds::kEach;
  std::string weight = "";  // kMean: the part that says how much it counts
  Before before = Before::kSent;
  /// kSent: names of the download's tensors that it may have begun as, best first; `*` stands for
  /// the places of a list.
  std::vector<std::string> starts = {};
  bool buffers = false;  // a network's running statistics; there are none without batch norms
  /// It is left out where a guard that promises something could not let it pass.
  bool spare = false;
};

/// Those of every upload that a method can send, optional ones too. Immutable once made.
class MessageParts {
 public:
  void add(const std::string& name, MessagePart part) { parts_.emplace(name, std::move(part)); }

  /// By the name that a tensor has in an upload; null for one that the method does not know.
  const MessagePart* find(const std::string& name) const;
  /// The first part that cannot be added to those of others; empty: all can.
  std::string each() const;
  auto begin() const { return parts_.begin(); }
  auto end() const { return parts_.end(); }
  bool empty() const { return parts_.empty(); }

 private:
  std::map<std::string, MessagePart> parts_;  // `*` for the places of a list
};

/// For people: "trained from what it was sent", "a statistic of its samples".
std::string words_of(const MessagePart& part);

/// The tensors of a download that the part may have begun as, of the type and shape of `like`, best
/// first. None: there is no such start, and what travels is the whole.
std::vector<Tensor> starts_in(const MessagePart& part, const TensorDict& down, const Tensor& like);

/// The largest number by which an upload asks to count; 0 where it does not say.
double largest_count(const TensorDict& up, const MessageParts& parts);

}  // namespace tessera

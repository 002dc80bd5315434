#include "tensor/trie_sum.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>

namespace tessera {
namespace {

/// A vector of a sum: float64 as it is, or a part's own numbers, each times `weight`.
struct Term {
  Tensor numbers;  // contiguous
  double weight;
  bool part;
  bool ours;  // may be written over
};

template <class A, class B>
void add_terms(double* out, const A* a, double weight_a, const B* b, double weight_b, int64_t n) {
#pragma GCC ivdep  // out may be a or b, never shifted
  for (int64_t i = 0; i < n; ++i)
    out[i] = weight_a * static_cast<double>(a[i]) + weight_b * static_cast<double>(b[i]);
}

/// low + high. A sum's own weight is 1, by which multiplication is exact. Written over a term that
/// was made here: new memory would cost more than the addition.
Tensor added(const Term& low, const Term& high) {
  auto out = low.ours    ? low.numbers
             : high.ours ? high.numbers
                         : at::empty_like(low.numbers, at::kDouble);
  auto* to = out.data_ptr<double>();
  const auto with = [&](const auto* a, const auto* b) {
    add_terms(to, a, low.part ? low.weight : 1, b, high.part ? high.weight : 1, out.numel());
  };
  const bool low_float = low.numbers.scalar_type() == at::kFloat;
  const bool high_float = high.numbers.scalar_type() == at::kFloat;
  const auto& a = low.numbers;
  const auto& b = high.numbers;
  if (low_float && high_float) with(a.data_ptr<float>(), b.data_ptr<float>());
  if (low_float && !high_float) with(a.data_ptr<float>(), b.data_ptr<double>());
  if (!low_float && high_float) with(a.data_ptr<double>(), b.data_ptr<float>());
  if (!low_float && !high_float) with(a.data_ptr<double>(), b.data_ptr<double>());
  return out;
}

}  // namespace

TrieSum::TrieSum(std::vector<ClientId> ids) : ids_(std::move(ids)) {
  std::sort(ids_.begin(), ids_.end());
  for (ClientId last = ids_.empty() ? 0 : ids_.back(); last > 0; last >>= 1) ++levels_;
}

TrieSum::TrieSum(std::vector<ClientId> ids, IdRange within) : TrieSum(std::move(ids)) {
  within_ = within;
  for (const ClientId id : ids_)
    if (!within.holds(id))
      throw std::invalid_argument("trie sum: client " + std::to_string(id) + " is elsewhere");
}

bool TrieSum::inside(Node node) const {
  const auto [level, prefix] = node;
  return !within_ || (within_->first <= prefix << level && (prefix + 1) << level <= within_->end);
}

bool TrieSum::expects(Node node) const {
  const auto [level, prefix] = node;
  const auto first = std::lower_bound(ids_.begin(), ids_.end(), prefix << level);
  return first != ids_.end() && (*first >> level) == prefix;
}

TrieSum::Sum TrieSum::merged(const Sum& low, const Sum& high) {
  const auto term = [](const Sum& sum, Tensor Sum::*whole, Tensor Weights::*one) {
    return sum.single ? Term{(sum.single->value.*one).contiguous(), sum.weight, true, false}
                      : Term{sum.*whole, 1, false, sum.ours};
  };
  const auto both = [&](Tensor Sum::*whole, Tensor Weights::*one) {
    return added(term(low, whole, one), term(high, whole, one));
  };
  return {std::nullopt, both(&Sum::w, &Weights::w), both(&Sum::b, &Weights::b),
          low.weight + high.weight, true};
}

void TrieSum::finish(Node node, std::optional<Sum> sum) {
  const auto id = std::to_string(node.second << node.first);
  if (node.first < 0 || node.first > levels_ || node.second < 0 || !expects(node))
    throw std::invalid_argument("trie sum: client " + id + " is not expected");
  for (; node.first < levels_; node = {node.first + 1, node.second >> 1}) {
    if (!inside({node.first + 1, node.second >> 1})) break;
    const Node sibling{node.first, node.second ^ 1};
    if (!expects(sibling)) continue;
    const auto other = done_.find(sibling);
    if (other == done_.end()) break;
    const bool low = (node.second & 1) == 0;
    if (sum && other->second)
      sum = low ? merged(*sum, *other->second) : merged(*other->second, *sum);
    else if (other->second)
      sum = std::move(other->second);
    done_.erase(other);
  }
  if (!done_.emplace(node, std::move(sum)).second)
    throw std::invalid_argument("trie sum: client " + id + " adds twice");
}

void TrieSum::add(ClientId id, Weighted part) {
  const double weight = part.weight;
  type_ = part.value.w.scalar_type();
  finish({0, id}, Sum{std::move(part), {}, {}, weight});
}

void TrieSum::skip(ClientId id) { finish({0, id}, std::nullopt); }

void TrieSum::add(TriePart part) {
  std::optional<Sum> sum;
  if (part.single) {
    const double weight = part.single->weight;
    type_ = part.single->value.w.scalar_type();
    sum = Sum{std::move(part.single), {}, {}, weight};
  } else if (part.sum) {
    sum = Sum{std::nullopt, part.sum->value.w, part.sum->value.b, part.sum->weight};
  }
  finish({part.level, part.prefix}, std::move(sum));
}

std::vector<TriePart> TrieSum::take_parts() {
  std::vector<TriePart> out;
  for (auto& [node, sum] : done_) {
    TriePart part{.level = node.first, .prefix = node.second};
    if (sum && sum->single)
      part.single = std::move(sum->single);
    else if (sum)
      part.sum = Weighted{{sum->w, sum->b}, sum->weight};
    out.push_back(std::move(part));
  }
  done_.clear();
  return out;
}

std::optional<Weighted> TrieSum::mean() const {
  if (ids_.empty()) return std::nullopt;
  const auto root = done_.find({levels_, 0});
  if (root == done_.end()) throw std::logic_error("trie sum: not everybody has been heard");
  const auto& sum = root->second;
  if (!sum || !(sum->weight > 0)) return std::nullopt;
  if (sum->single) return sum->single;
  return Weighted{{(sum->w / sum->weight).to(type_), (sum->b / sum->weight).to(type_)},
                  sum->weight};
}

}  // namespace tessera

#include "tensor/trie_sum.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>

namespace tessera {
namespace {

/// Numbers of a sum, each times `weight`: 1 of what was weighed before, by which multiplication is
/// exact.
struct Term {
  Tensor numbers;  // contiguous
  double weight;
  bool ours;  // may be written over
};

template <class A, class B>
void add_terms(double* out, const A* a, double weight_a, const B* b, double weight_b, int64_t n) {
#pragma GCC ivdep  // out may be a or b, never shifted
  for (int64_t i = 0; i < n; ++i)
    out[i] = weight_a * static_cast<double>(a[i]) + weight_b * static_cast<double>(b[i]);
}

/// low + high. Written over a term that was made here: new memory would cost more than the
/// addition.
Tensor added(const Term& low, const Term& high) {
  auto out = low.ours    ? low.numbers
             : high.ours ? high.numbers
                         : at::empty_like(low.numbers, at::kDouble);
  auto* to = out.data_ptr<double>();
  const auto with = [&](const auto* a, const auto* b) {
    add_terms(to, a, low.weight, b, high.weight, out.numel());
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

TrieSum::TrieSum(std::vector<ClientId> ids, Addends addends)
    : ids_(std::move(ids)), addends_(std::move(addends)) {
  std::sort(ids_.begin(), ids_.end());
  for (ClientId last = ids_.empty() ? 0 : ids_.back(); last > 0; last >>= 1) ++levels_;
}

TrieSum::TrieSum(std::vector<ClientId> ids, Addends addends, IdRange within)
    : TrieSum(std::move(ids), std::move(addends)) {
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

const MessagePart& TrieSum::part(const std::string& name) const {
  const auto* out = addends_.parts->find(name);
  if (!out || out->adds == Adds::kEach)
    throw std::invalid_argument("trie sum: '" + name + "' cannot be added");
  return *out;
}

TrieSum::Partial TrieSum::opened(TensorDict upload, bool single) const {
  Partial out{.single = single};
  for (auto& [name, tensor] : upload) {
    const auto adds = part(name).adds;
    if (adds == Adds::kWeight) {
      out.weights.emplace(name, tensor.item<double>());
      continue;
    }
    const bool real = tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
    out.numbers.emplace(
        name, single || adds == Adds::kShared || real ? std::move(tensor) : tensor.to(at::kDouble));
  }
  return out;
}

TrieSum::Partial TrieSum::merged(const Partial& low, const Partial& high) const {
  Partial out{.ours = true, .weights = low.weights};
  for (auto& [name, weight] : out.weights) weight += high.weights.at(name);
  for (const auto& [name, tensor] : low.numbers) {
    const auto& rule = part(name);
    if (rule.adds == Adds::kShared) {
      out.numbers.emplace(name, tensor);
      continue;
    }
    const auto term = [&](const Partial& of) {
      auto numbers = of.numbers.at(name).contiguous();
      if (numbers.scalar_type() != at::kFloat) numbers = numbers.to(at::kDouble);
      const bool weighed = of.single && rule.adds == Adds::kMean;
      return Term{numbers, weighed ? of.weights.at(rule.weight) : 1, of.ours};
    };
    out.numbers.emplace(name, added(term(low), term(high)));
  }
  return out;
}

void TrieSum::finish(Node node, std::optional<Partial> sum) {
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

void TrieSum::add(ClientId id, TensorDict upload) {
  finish({0, id}, opened(std::move(upload), true));
}

void TrieSum::skip(ClientId id) { finish({0, id}, std::nullopt); }

void TrieSum::add(TriePart part) {
  std::optional<Partial> sum;
  if (part.single) sum = opened(*std::move(part.single), true);
  if (part.sum) sum = opened(*std::move(part.sum), false);
  finish({part.level, part.prefix}, std::move(sum));
}

std::vector<TriePart> TrieSum::take_parts() {
  std::vector<TriePart> out;
  for (auto& [node, sum] : done_) {
    TriePart part{.level = node.first, .prefix = node.second};
    if (sum) {
      for (const auto& [name, weight] : sum->weights)
        sum->numbers.emplace(name, detail::scalar(weight));
      (sum->single ? part.single : part.sum) = std::move(sum->numbers);
    }
    out.push_back(std::move(part));
  }
  done_.clear();
  return out;
}

std::optional<TensorDict> TrieSum::result() const {
  if (ids_.empty()) return std::nullopt;
  const auto root = done_.find({levels_, 0});
  if (root == done_.end()) throw std::logic_error("trie sum: not everybody has been heard");
  const auto& sum = root->second;
  if (!sum) return std::nullopt;
  const bool weighs = std::any_of(sum->weights.begin(), sum->weights.end(),
                                  [](const auto& one) { return one.second > 0; });
  if (!sum->weights.empty() && !weighs) return std::nullopt;
  TensorDict out;
  for (const auto& [name, weight] : sum->weights) out.emplace(name, detail::scalar(weight));
  for (const auto& [name, numbers] : sum->numbers) {
    const auto& rule = part(name);
    if (sum->single || rule.adds == Adds::kShared) {
      out.emplace(name, numbers);
      continue;
    }
    const double weight = rule.adds == Adds::kMean ? sum->weights.at(rule.weight) : 1;
    const auto type = addends_.form.at(name).scalar_type();
    const auto mean = weight > 0 ? numbers / weight : at::zeros_like(numbers);
    out.emplace(name, (at::isIntegralType(type, true) ? mean.round() : mean).to(type));
  }
  return out;
}

}  // namespace tessera

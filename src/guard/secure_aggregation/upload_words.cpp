#include "guard/secure_aggregation/upload_words.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <map>

#include "guard/secure_aggregation/sum/fixed_point.hpp"

namespace tessera {
namespace {

/// Entries that are weighed alike: by an upload's weight of that name; totals by none.
struct Group {
  std::string weight;
  std::vector<std::string> entries;
};

/// Groups by their weights' names, totals last, entries by name: the same list at both ends.
std::vector<Group> groups_in(const TensorDict& form, const MessageParts& parts) {
  std::map<std::string, std::vector<std::string>> means;
  Group totals;
  for (const auto& [name, tensor] : form) {
    const auto* part = parts.find(name);
    if (part && part->adds == Adds::kMean) means[part->weight].push_back(name);
    if (part && part->adds == Adds::kTotal) totals.entries.push_back(name);
  }
  std::vector<Group> out;
  for (auto& [weight, entries] : means) out.push_back({weight, std::move(entries)});
  if (!totals.entries.empty()) out.push_back(std::move(totals));
  return out;
}

/// How much a group of this upload counts, of 2^exponent at most.
double weight_of(const Group& group, const TensorDict& up, const WordScale& scale) {
  return group.weight.empty() ? std::ldexp(1.0, static_cast<int>(scale.exponent))
                              : up.at(group.weight).item<double>();
}

/// All numbers of a group, entry after entry.
std::vector<float> numbers_of(const Group& group, const TensorDict& up) {
  std::vector<float> out;
  for (const auto& name : group.entries) {
    const auto flat = up.at(name).contiguous();
    const auto* from = flat.data_ptr<float>();
    out.insert(out.end(), from, from + flat.numel());
  }
  return out;
}

Result<FixedPoint> fixed_point(const WordScale& scale) {
  return FixedPoint::create({.clip = scale.guard.range,
                             .fraction_bits = static_cast<int>(scale.guard.bits),
                             .max_weight = std::ldexp(1.0, static_cast<int>(scale.exponent)),
                             .clients = scale.clients});
}

Status out_of_range(const std::string& what, double value, const WordScale& scale) {
  return fail(Error::kInvalid,
              "{} holds {:.3g}, which guard 'secure-aggregation' does not send: beyond {:.6g}; "
              "raise guard.secure-aggregation.range",
              what, value, scale.guard.range);
}

Status check_range(const Group& group, const TensorDict& up, const WordScale& scale) {
  const double factor = std::ldexp(weight_of(group, up, scale), -static_cast<int>(scale.exponent));
  for (const auto& name : group.entries) {
    const auto& tensor = up.at(name);
    if (tensor.numel() == 0) continue;
    const auto [low, high] = at::aminmax(tensor);
    const double most = std::max(std::abs(low.item<double>()), std::abs(high.item<double>()));
    if (!std::isfinite(most)) return fail(Error::kInvalid, "'{}' is not finite", name);
    if (most * factor > scale.guard.range)
      return out_of_range("'" + name + "'", most * factor, scale);
  }
  return ok();
}

}  // namespace

Status check_upload_form(const TensorDict& form, const MessageParts& parts,
                         const std::string& method) {
  for (const auto& [name, tensor] : form) {
    const auto* part = parts.find(name);
    if (!part || part->adds == Adds::kEach)
      return fail(Error::kInvalid,
                  "guard 'secure-aggregation' does not go with {}: its upload '{}' is no part of a "
                  "mean or a total; remove the guard, or choose another method",
                  method, name);
    const bool number = part->adds == Adds::kMean || part->adds == Adds::kTotal;
    if (number && tensor.scalar_type() != at::kFloat)
      return fail(Error::kInvalid,
                  "guard 'secure-aggregation' does not go with {}: its upload '{}' is no float32, "
                  "which alone is summed; remove the guard, or choose another method",
                  method, name);
  }
  return ok();
}

uint64_t upload_words(const TensorDict& form, const MessageParts& parts) {
  uint64_t out = 1;  // the loss
  for (const auto& group : groups_in(form, parts)) {
    out += !group.weight.empty();
    for (const auto& name : group.entries) out += static_cast<uint64_t>(form.at(name).numel());
  }
  return out;
}

Result<int64_t> weight_exponent(double weight) {
  for (int64_t exponent = 0; weight >= 0 && exponent <= kMostExponent; ++exponent)
    if (weight <= std::ldexp(1.0, static_cast<int>(exponent))) return exponent;
  return fail(Error::kInvalid, "its weight {} is not from 0 to 2^{}", weight, kMostExponent);
}

Result<std::vector<uint64_t>> to_words(const TensorDict& up, const MessageParts& parts, double loss,
                                       const WordScale& scale) {
  TESSERA_ASSIGN(const auto coder, fixed_point(scale));
  if (!std::isfinite(loss)) return fail(Error::kInvalid, "its training loss is not finite");
  if (std::abs(loss) > scale.guard.range) return out_of_range("its training loss", loss, scale);
  std::vector<uint64_t> out;
  for (const auto& group : groups_in(up, parts)) {
    TESSERA_RETURN_IF_ERROR(check_range(group, up, scale));
    TESSERA_ASSIGN(auto words, coder.encode(numbers_of(group, up), weight_of(group, up, scale)));
    if (group.weight.empty()) words.pop_back();  // everybody's is the same
    out.insert(out.end(), words.begin(), words.end());
  }
  const double scaled = std::ldexp(loss, static_cast<int>(scale.guard.bits));
  out.push_back(static_cast<uint64_t>(static_cast<int64_t>(std::nearbyint(scaled))));
  return out;
}

Result<SummedUploads> from_words(std::vector<uint64_t> sum, const TensorDict& form,
                                 const MessageParts& parts, const WordScale& scale) {
  if (sum.size() != upload_words(form, parts))
    return fail(Error::kInvalid, "a sum of {} words is none of {}", sum.size(),
                upload_words(form, parts));
  TESSERA_ASSIGN(const auto coder, fixed_point(scale));
  SummedUploads out;
  out.loss = std::ldexp(static_cast<double>(static_cast<int64_t>(sum.back())),
                        -static_cast<int>(scale.guard.bits));
  // The weight 2^exponent, by which a total is not divided.
  const auto whole = static_cast<uint64_t>(1) << (scale.exponent + scale.guard.bits);
  size_t at = 0;
  bool weighs = false, means = false;
  for (const auto& group : groups_in(form, parts)) {
    size_t size = group.weight.empty() ? 0 : 1;
    for (const auto& name : group.entries) size += static_cast<size_t>(form.at(name).numel());
    std::vector<uint64_t> words(sum.begin() + static_cast<std::ptrdiff_t>(at),
                                sum.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    if (group.weight.empty()) words.push_back(whole);
    TESSERA_ASSIGN(const auto mean, coder.decode(words));
    if (!group.weight.empty()) {
      means = true, weighs = weighs || mean.weight > 0;
      out.mean.emplace(group.weight, at::full({}, mean.weight, form.at(group.weight).options()));
    }
    const auto* from = mean.values.data();
    for (const auto& name : group.entries) {
      auto to = at::empty(form.at(name).sizes(), at::kFloat);
      auto* numbers = to.data_ptr<float>();
      for (int64_t i = 0; i < to.numel(); ++i) numbers[i] = static_cast<float>(*from++);
      out.mean.emplace(name, to);
    }
  }
  if (means && !weighs) return fail(Error::kInvalid, "all uploads have weight 0");
  for (const auto& [name, tensor] : form)  // what all share
    if (const auto* part = parts.find(name); part && part->adds == Adds::kShared)
      out.mean.emplace(name, tensor);
  return out;
}

}  // namespace tessera

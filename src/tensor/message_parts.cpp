#include "tensor/message_parts.hpp"

#include <ATen/ATen.h>

#include <algorithm>

namespace tessera {
namespace {

bool is_place(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
}

/// "models.3.w" as "models.*.w".
std::string pattern_of(const std::string& name) {
  std::string out;
  for (size_t at = 0; at <= name.size();) {
    const auto end = std::min(name.find('.', at), name.size());
    const auto word = name.substr(at, end - at);
    out += (out.empty() ? "" : ".") + (is_place(word) ? "*" : word);
    at = end + 1;
  }
  return out;
}

}  // namespace

const MessagePart* MessageParts::find(const std::string& name) const {
  auto at = parts_.find(name);
  if (at == parts_.end()) at = parts_.find(pattern_of(name));
  return at == parts_.end() ? nullptr : &at->second;
}

std::string MessageParts::each() const {
  for (const auto& [name, part] : parts_)
    if (part.adds == Adds::kEach) return name;
  return "";
}

std::string words_of(const MessagePart& part) {
  if (part.buffers) return "running statistics of the network";
  if (part.meaning == Meaning::kStatistic) return "a statistic of its samples";
  if (part.meaning == Meaning::kCount) return "how many samples";
  if (part.meaning == Meaning::kOpen) return "nothing of its data";
  switch (part.before) {
    case Before::kSent:
      return "trained from what it was sent";
    case Before::kOwn:
      return "trained, its own";
    case Before::kChange:
      return "how training changed it";
    case Before::kGradient:
      return "a gradient";
  }
  return "";
}

std::vector<Tensor> starts_in(const MessagePart& part, const TensorDict& down, const Tensor& like) {
  std::vector<Tensor> out;
  const auto take = [&](const Tensor& one) {
    if (one.scalar_type() == like.scalar_type() && one.sizes() == like.sizes()) out.push_back(one);
  };
  for (const auto& start : part.starts) {
    if (start.find('*') == std::string::npos) {
      if (const auto at = down.find(start); at != down.end()) take(at->second);
      continue;
    }
    for (const auto& [name, one] : down)
      if (pattern_of(name) == start) take(one);
  }
  return out;
}

double largest_count(const TensorDict& up, const MessageParts& parts) {
  double out = 0;
  for (const auto& [name, tensor] : up)
    if (const auto* part = parts.find(name); part && part->meaning == Meaning::kCount)
      out = std::max(out, tensor.item<double>());
  return out;
}

}  // namespace tessera

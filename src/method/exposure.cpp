#include "method/exposure.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>

#include "base/text.hpp"

namespace tessera {
namespace {

bool has(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string words_of(const Exposure& exposure) {
  std::vector<std::string> out;
  for (const auto& told : exposure.server)
    out.push_back(told.only.empty() ? told.words : told.words + " (" + told.only + ")");
  return join(out, ", ");
}

bool has_data(const Exposure& exposure) {
  return !exposure.server.empty() && exposure.server.front().what == Tells::kData;
}

/// What guards do to every upload, in the order in which they act.
std::vector<std::string> veils(const std::vector<std::string>& guards, bool sums) {
  const std::vector<std::pair<const char*, const char*>> known{
      {"transform", "learned from transformed samples and labels"},
      {"dp-sgd", "learned from clipped and noised gradients"},
      {"counts", "its number of samples rounded"},
      {"clip", "its change clipped"},
      {"perturb", "noise added to its change"},
      {"prune", "only the largest numbers of its change"}};
  std::vector<std::string> out;
  for (const auto& [guard, words] : known)
    if (has(guards, guard)) out.emplace_back(words);
  if (has(guards, "dp"))
    out.emplace_back(sums ? "its change clipped, without the noise that the sum gets"
                          : "its change clipped and noised");
  return out;
}

std::string server_words(const Exposure& exposure, bool sums,
                         const std::vector<std::string>& guards) {
  if (exposure.server.empty()) return "nothing of its training";
  if (has_data(exposure)) return exposure.server.front().words;
  auto out = words_of(exposure);
  if (const auto hidden = veils(guards, sums); !hidden.empty()) out += "; " + join(hidden, "; ");
  if (hides_uploads(sums, guards))
    return out + "; only as a sum over the round's clients (secure-aggregation)";
  out += sums ? "; each client's by itself, though only the sum is needed"
              : "; each client's by itself, as the method needs it";
  return exposure.kept ? out + "; the latest is kept" : out;
}

std::string peers_words(const Exposure& exposure, bool sums,
                        const std::vector<std::string>& guards) {
  const bool noised = has(guards, "dp");
  switch (exposure.peers) {
    case Shown::kNothing:
      return "nothing of it";
    case Shown::kSum:
      return exposure.sent + ": no more than in the sum over the round's clients" +
             (noised && sums ? ", with noise" : "");
    case Shown::kMixed:
      return exposure.sent + ": more than in a sum, less than an upload";
    case Shown::kSingle:
      return exposure.sent + ": the upload itself";
  }
  return "";
}

std::string user_words(const Exposure& exposure, const std::vector<std::string>& guards) {
  std::string out = has_data(exposure) ? "answers of the one model"
                                       : "answers of a client's model, where they are offered";
  const std::vector<std::pair<const char*, const char*>> known{
      {"vote", "a vote of models, each of a part of its data"},
      {"aggregate", "probabilities averaged over noised inputs"},
      {"noise", "noise added to probabilities"},
      {"round", "probabilities rounded"},
      {"topk", "only the largest probabilities, or the class alone"}};
  for (const auto& [guard, words] : known)
    if (has(guards, guard)) out += std::string("; ") + words;
  return out;
}

}  // namespace

void settle_exposure(Exposure& exposure, const MessageParts& parts) {
  for (auto& told : exposure.server) {
    if (told.what == Tells::kData) continue;
    const auto* part = parts.find(told.tensor);
    if (!part) throw std::logic_error("no upload has a tensor '" + told.tensor + "'");
    told.what = part->meaning != Meaning::kTrained  ? Tells::kStatistics
                : part->before == Before::kGradient ? Tells::kGradient
                : part->before == Before::kChange   ? Tells::kChange
                                                    : Tells::kModel;
  }
}

std::string name_of(Tells what) {
  switch (what) {
    case Tells::kModel:
      return "model";
    case Tells::kChange:
      return "change";
    case Tells::kGradient:
      return "gradient";
    case Tells::kStatistics:
      return "statistics";
    case Tells::kData:
      return "data";
  }
  return "";
}

std::string name_of(Shown shown) {
  switch (shown) {
    case Shown::kNothing:
      return "nothing";
    case Shown::kSum:
      return "sum";
    case Shown::kMixed:
      return "mixture";
    case Shown::kSingle:
      return "single";
  }
  return "";
}

Tensor covered(const Layout& layout, Covers covers, int64_t numel) {
  std::vector<Tensor> parts;
  const auto role = [&](auto... roles) {
    return layout.positions([=](const Slice& slice) { return ((slice.role == roles) || ...); });
  };
  const auto layers = std::ssize(layout.blocks());
  switch (covers) {
    case Covers::kAll:
      parts = {at::arange(layout.numel(), at::kLong)};
      break;
    case Covers::kBase:
      for (int64_t k = 1; k < layers; ++k) parts.push_back(layout.others(layout.trailing(k)));
      break;
    case Covers::kTop:
      for (int64_t k = 1; k < layers; ++k) parts.push_back(layout.trailing(k));
      break;
    case Covers::kNotNorms:
      parts = {layout.others(role(Role::kNorm)),
               layout.others(role(Role::kNorm, Role::kLayerNorm))};
      break;
    case Covers::kNotAttention:
      parts = {layout.others(role(Role::kAttention))};
      break;
    case Covers::kAttention:
      parts = {role(Role::kAttention)};
      break;
    case Covers::kFirst:
      if (numel > layout.numel()) return at::arange(layout.numel(), at::kLong);
      break;
    case Covers::kNone:
      return at::empty({0}, at::kLong);
  }
  for (const auto& part : parts)
    if (part.numel() == numel) return part;
  throw std::invalid_argument("an upload does not hold the part of the model that is declared");
}

bool hides_uploads(bool sums, const std::vector<std::string>& guards) {
  return sums && has(guards, "secure-aggregation");
}

std::string sentence(const Exposure& exposure) {
  if (exposure.server.empty()) return "nothing leaves a client";
  if (has_data(exposure)) return exposure.server.front().words;
  auto out = (exposure.kept ? "the server keeps " : "the server gets ") + words_of(exposure);
  if (!exposure.sent.empty()) out += "; other clients get " + exposure.sent;
  if (!exposure.stays.empty()) out += "; " + exposure.stays + " stays with it";
  return exposure.remark.empty() ? out : out + "; " + exposure.remark;
}

std::vector<Sight> sights(const Exposure& exposure, bool sums,
                          const std::vector<std::string>& guards) {
  std::vector<Sight> out{{"server", server_words(exposure, sums, guards)},
                         {"peers", peers_words(exposure, sums, guards)},
                         {"user", user_words(exposure, guards)}};
  if (!exposure.stays.empty()) out.push_back({"stays", exposure.stays});
  if (!exposure.remark.empty()) out.push_back({"note", exposure.remark});
  return out;
}

}  // namespace tessera

#include "guard/guard.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <stdexcept>

#include "base/key.hpp"
#include "guard/coding.hpp"
#include "guard/frame.hpp"
#include "guard/secure_aggregation/upload_words.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "privacy/draws.hpp"

namespace tessera {
namespace {

constexpr int64_t kFewest = 16;

bool same_kind(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes();
}

Result<Tensor> take_entry(TensorDict& sealed, const std::string& name, at::ScalarType type,
                          at::IntArrayRef shape) {
  const auto node = sealed.extract(name);
  if (node.empty()) return fail(Error::kInvalid, "'{}' is missing", name);
  const auto& tensor = node.mapped();
  const auto text = [](at::ScalarType t, at::IntArrayRef sizes) {
    return fmt::format("{} [{}]", at::toString(t), fmt::join(sizes.begin(), sizes.end(), ", "));
  };
  if (tensor.scalar_type() != type || tensor.sizes() != shape)
    return fail(Error::kInvalid, "'{}' is {}, expected {}", name,
                text(tensor.scalar_type(), tensor.sizes()), text(type, shape));
  return tensor;
}

/// Laplace of deviation 1, by the inverse of its distribution.
double laplace(Rng& rng) {
  const double u = rng.uniform() - 0.5;
  return -std::copysign(std::log1p(-2 * std::abs(u)), u) / std::numbers::sqrt2;
}

std::string quoted(const std::string& name) { return "'" + name + "'"; }

}  // namespace

std::vector<Moved> Guard::moved(const TensorDict& up, const TensorDict& down) const {
  return trained_in(up, down, *run_.parts, dp() ? StartBy::kFirst : StartBy::kNearest);
}

std::vector<Tensor> Guard::starts(const std::string& name, const Tensor& tensor,
                                  const TensorDict& down) const {
  const auto* part = run_.parts->find(name);
  return part ? starts_in(*part, down, tensor) : std::vector<Tensor>();
}

bool Guard::shrinks(const std::string& name, const Tensor& tensor, const TensorDict& down) const {
  const auto* part = run_.parts->find(name);
  if (!compresses() || !part || part->meaning != Meaning::kTrained ||
      tensor.scalar_type() != at::kFloat || tensor.numel() < kFewest ||
      tensor.numel() > std::numeric_limits<int32_t>::max())
    return false;
  const bool change = part->before == Before::kChange || part->before == Before::kGradient;
  return options_.compress->to != "topk" || change || !starts_in(*part, down, tensor).empty();
}

Status Guard::seal_one(const std::string& name, const Tensor& tensor, const TensorDict& down,
                       uint64_t key, const TensorDict& before, TensorDict& memory,
                       TensorDict& out) const {
  const auto candidates = starts(name, tensor, down);
  const int64_t from = nearest_of(candidates, tensor);
  auto change = from == 0 ? tensor : tensor - candidates[static_cast<size_t>(from - 1)];
  const auto old = before.find(name);
  if (old != before.end() && same_kind(old->second, tensor)) change = change + old->second;
  change = change.reshape({-1});
  if (!at::isfinite(change).all().item<bool>())
    return fail(Error::kInvalid, "'{}' is not finite", name);
  out.emplace(name + "/from", at::scalar_tensor(from, at::kLong));
  if (options_.compress->to == "fp16") {
    auto half = to_half(change);
    if (!half.ok()) return at_place(half.status(), quoted(name));
    out.emplace(name + "/fp16", *half);
  } else if (options_.compress->to == "int8") {
    auto coded = to_int8(change, key);
    out.emplace(name + "/int8", coded.steps), out.emplace(name + "/scale", coded.scale);
  } else {
    auto sent = largest(change, sparse_count(options_.compress->share, change.numel()));
    auto rest = change.clone();
    rest.index_fill_(0, sent.index.to(at::kLong), 0);
    memory.emplace(name, rest.view(tensor.sizes()));
    out.emplace(name + "/index", sent.index), out.emplace(name + "/value", sent.value);
  }
  return ok();
}

Result<TensorDict> Guard::seal(TensorDict up, const TensorDict& down, uint64_t key,
                               TensorDict& memory) const {
  up = protect(std::move(up), down, key);
  TensorDict out, left;
  uint64_t number = 0;
  for (auto& [name, tensor] : up) {
    if (shrinks(name, tensor, down))
      TESSERA_RETURN_IF_ERROR(
          seal_one(name, tensor, down, derive(key, ++number), memory, left, out));
    else
      out.emplace(name, std::move(tensor));
  }
  if (options_.zstd) {
    TESSERA_ASSIGN(out, in_frame(out, zstd()));
  }
  memory = std::move(left);
  return out;
}

TensorDict Guard::references(const TensorDict& down, const TensorDict& expected) const {
  TensorDict out;
  for (const auto& [name, tensor] : expected) {
    if (!needs_references() && !shrinks(name, tensor, down)) continue;
    for (const auto& from : starts(name, tensor, down))
      for (const auto& [other, one] : down)
        if (one.is_same(from)) out.emplace(other, one);
  }
  return out;
}

Result<Tensor> Guard::open_one(const std::string& name, const Tensor& expected, TensorDict& sealed,
                               const TensorDict& references) const {
  const int64_t n = expected.numel();
  const auto candidates = starts(name, expected, references);
  TESSERA_ASSIGN(const auto number, take_entry(sealed, name + "/from", at::kLong, {}));
  const auto from = number.item<int64_t>();
  if (from < 0 || from > std::ssize(candidates))
    return fail(Error::kInvalid, "'{}/from' is {}, there are {}", name, from, candidates.size());
  Result<Tensor> change = Tensor();
  if (options_.compress->to == "fp16") {
    TESSERA_ASSIGN(const auto half, take_entry(sealed, name + "/fp16", at::kHalf, {n}));
    change = half.to(at::kFloat);
  } else if (options_.compress->to == "int8") {
    Int8Numbers coded;
    const int64_t blocks = (n + kInt8Block - 1) / kInt8Block;
    TESSERA_ASSIGN(coded.steps, take_entry(sealed, name + "/int8", at::kChar, {n}));
    TESSERA_ASSIGN(coded.scale, take_entry(sealed, name + "/scale", at::kFloat, {blocks}));
    change = from_int8(coded);
  } else {
    SparseNumbers coded;
    const int64_t k = sparse_count(options_.compress->share, n);
    TESSERA_ASSIGN(coded.index, take_entry(sealed, name + "/index", at::kInt, {k}));
    TESSERA_ASSIGN(coded.value, take_entry(sealed, name + "/value", at::kFloat, {k}));
    change = from_sparse(coded, n);
  }
  if (!change.ok()) return at_place(change.status(), quoted(name));
  auto out = change->view(expected.sizes());
  return from == 0 ? out : candidates[static_cast<size_t>(from - 1)] + out;
}

Result<TensorDict> Guard::open_all(TensorDict sealed, const TensorDict& expected,
                                   const TensorDict& references) const {
  TensorDict out;
  for (const auto& [name, tensor] : expected) {
    if (!shrinks(name, tensor, references)) continue;
    TESSERA_ASSIGN(auto opened, open_one(name, tensor, sealed, references));
    out.emplace(name, std::move(opened));
  }
  // What nobody expects stays in, for the method's own check to name.
  for (auto& [name, tensor] : sealed)
    if (!out.emplace(name, std::move(tensor)).second)
      return fail(Error::kInvalid, "'{}' comes twice, sealed and as it is", name);
  return out;
}

Opened Guard::open(TensorDict sealed, const TensorDict& expected,
                   const TensorDict& references) const {
  if (options_.zstd) {
    // Sealed tensors are at most as large as the plain ones, their names a little longer.
    const int64_t most = encoded_size(expected) + 1024 * (1 + std::ssize(expected));
    auto plain = from_frame(sealed, most);
    if (!plain.ok()) return {plain.status(), payload_bytes(sealed)};
    sealed = *std::move(plain);
  }
  const int64_t bytes = payload_bytes(sealed);
  auto up = open_all(std::move(sealed), expected, references);
  // What a client did not do itself is done here; what it did stays as it is.
  if (up.ok()) restrain(*up, references);
  return {std::move(up), bytes};
}

double Guard::bound() const {
  return options_.dp ? options_.dp->bound : options_.clip ? options_.clip->bound : 0;
}

void Guard::restrain(TensorDict& up, const TensorDict& down) const {
  if (options_.counts) round_counts(up, options_.counts->digits, *run_.parts);
  if (dp()) set_counts(up, 1, *run_.parts);
  if (bound() > 0 && !noise_of_clients()) clip(up, moved(up, down), bound());
}

TensorDict Guard::form(TensorDict expected) const {
  if (promises())
    std::erase_if(expected, [&](const auto& entry) {
      const auto* part = run_.parts->find(entry.first);
      return part && part->spare;
    });
  return expected;
}

TensorDict Guard::protect(TensorDict up, const TensorDict& down, uint64_t key) const {
  up = form(std::move(up));
  // The server checks this before the first round; a client does not take its word for it.
  if (dp())
    if (const auto covered = check_covered(up, "this method"); !covered.ok())
      throw std::runtime_error(message(covered));
  restrain(up, down);
  if (!options_.clip && !options_.dp && !options_.perturb && !options_.prune) return up;
  const auto trained = moved(up, down);
  if (options_.perturb && options_.perturb->scale > 0) perturb(up, trained, derive(key, 1));
  if (options_.prune) prune(up, trained, *options_.prune);
  if (noise_of_clients()) {
    clip(up, trained, bound());
    add_noise(up, trained, noise(options_.dp->sigma * bound(), derive(key, 2)));
  }
  return up;
}

std::vector<std::string> Guard::noisy(const TensorDict& up, const TensorDict& down) const {
  std::vector<std::string> out;
  if (!dp() || !hides()) return out;
  for (const auto& one : moved(up, down)) out.push_back(one.name);
  return out;
}

void Guard::add_share_of_noise(TensorDict& up, const std::vector<std::string>& names, int64_t least,
                               uint64_t key) const {
  if (names.empty()) return;
  std::vector<Moved> moved;
  for (const auto& name : names) moved.push_back({name, {}});
  const double deviation = options_.dp->sigma * bound() / std::sqrt(static_cast<double>(least));
  add_noise(up, moved, noise(deviation, derive(key, 3)));
}

Status Guard::check(const TensorDict& expected, const TensorDict& down,
                    const std::string& method) const {
  const auto* which = options_.dp        ? "dp"
                      : options_.clip    ? "clip"
                      : options_.perturb ? "perturb"
                      : options_.prune   ? "prune"
                      : options_.reject  ? "reject"
                                         : nullptr;
  if (hides()) TESSERA_RETURN_IF_ERROR(check_upload_form(form(expected), *run_.parts, method));
  if (!which) return ok();
  if (const auto whole = whole_models(expected, down, *run_.parts); !whole.empty())
    return fail(
        Error::kInvalid,
        "guard '{}' does not go with {}: its upload '{}' is a whole model of a client, not a "
        "change of something that the client was sent; remove the guard, or choose another "
        "method",
        which, method, whole.front());
  return dp() ? check_covered(expected, method) : ok();
}

Status Guard::check_covered(const TensorDict& expected, const std::string& method) const {
  for (const auto& [name, tensor] : form(expected)) {
    const auto* part = run_.parts->find(name);
    if (!part) return fail(Error::kInternal, "'{}' is no part of {}'s uploads", name, method);
    if (part->meaning == Meaning::kStatistic && part->buffers && tensor.numel() > 0)
      return fail(
          Error::kInvalid,
          "guard 'dp' does not go with this network: what it counts beside its weights ('{}', "
          "running means of batch norms) would travel without noise; choose a network "
          "without batch norms, or method fedbn",
          name);
    if (part->meaning == Meaning::kStatistic && !part->buffers)
      return fail(Error::kInvalid, "guard 'dp' does not go with {}", uncovered(method, name));
    if (part->meaning == Meaning::kTrained && tensor.scalar_type() != at::kFloat)
      return fail(
          Error::kInvalid,
          "guard 'dp' does not go with {}: its upload '{}' is trained and no float32, which "
          "alone gets noise; remove the guard, or choose another method",
          method, name);
  }
  return ok();
}

std::string uncovered(const std::string& method, const std::string& part) {
  return fmt::format(
      "{}: its upload '{}' is a statistic of a client's samples, which no bound holds for; remove "
      "it, or choose another method",
      method, part);
}

std::string first_uncovered(const MessageParts& parts) {
  for (const auto& [name, part] : parts)
    if (part.meaning == Meaning::kStatistic && !part.buffers && !part.spare) return name;
  return "";
}

double Guard::norm(const TensorDict& up, const TensorDict& references) const {
  return norm_of(up, moved(up, references));
}

std::function<double()> Guard::noise(double deviation, uint64_t key) const {
  const bool system = options_.dp && options_.dp->entropy == "system";
  return [deviation, draws = std::make_shared<Draws>(system ? Draws::of_system() : Draws(key))] {
    return deviation * draws->normal();
  };
}

void Guard::perturb(TensorDict& up, const std::vector<Moved>& trained, uint64_t key) const {
  int64_t numbers = 0;
  for (const auto& one : trained) numbers += up.at(one.name).numel();
  if (numbers == 0) return;
  const double rms = norm_of(up, trained) / std::sqrt(static_cast<double>(numbers));
  const double deviation = options_.perturb->scale * rms;
  const bool normal = options_.perturb->noise == "normal";
  Rng rng(key);
  add_noise(up, trained, [&] { return deviation * (normal ? rng.normal() : laplace(rng)); });
}

void Guard::finish(std::vector<TensorDict*> uploads, const TensorDict& references, int64_t count,
                   uint64_t key) const {
  if (!dp() || noise_of_clients() || uploads.empty()) return;
  // The denominator of means is fixed, so that one client more or less moves them by a bound /
  // most; totals it moves by a bound.
  const double most = divided_by(count);
  const auto parted = [&](const TensorDict& up, bool totals) {
    auto out = moved(up, references);
    std::erase_if(out, [&](const Moved& one) {
      return (run_.parts->find(one.name)->adds == Adds::kTotal) != totals;
    });
    return out;
  };
  for (auto* up : uploads) scale(*up, parted(*up, false), static_cast<double>(count) / most);
  if (hides()) return;  // the clients have added theirs
  // The method will divide by how many uploads there are.
  const double deviation = options_.dp->sigma * bound();
  auto& first = *uploads.front();
  add_noise(first, parted(first, false),
            noise(deviation / most * static_cast<double>(uploads.size()), key));
  add_noise(first, parted(first, true), noise(deviation, derive(key, 1)));
}

Status Guard::check_memory(const TensorDict& memory) const {
  if (!memory.empty() && !(compresses() && options_.compress->to == "topk"))
    return fail(Error::kInvalid, "there is a memory of top-k, which is off");
  for (const auto& [name, tensor] : memory)
    if (tensor.scalar_type() != at::kFloat || !at::isfinite(tensor).all().item<bool>())
      return fail(Error::kInvalid, "the guard's memory of '{}' is not of finite float32 numbers",
                  name);
  return ok();
}

TensorDict take_memory(TensorDict& state) {
  const std::string prefix = kGuardPrefix;
  TensorDict out;
  for (auto at = state.lower_bound(prefix); at != state.end() && at->first.starts_with(prefix);) {
    out.emplace(at->first.substr(prefix.size()), at->second);
    at = state.erase(at);
  }
  return out;
}

void put_memory(TensorDict& state, TensorDict memory) {
  for (auto& [name, tensor] : memory) state.emplace(kGuardPrefix + name, std::move(tensor));
}

}  // namespace tessera

#include "guard/secure_aggregation/held_uploads.hpp"

#include <ATen/ATen.h>

#include <cstring>

#include "guard/secure_aggregation/upload_words.hpp"

namespace tessera {

Tensor tensor_of_message(const Bytes& message) {
  auto out = at::empty({std::ssize(message)}, at::kByte);
  if (!message.empty()) std::memcpy(out.data_ptr(), message.data(), message.size());
  return out;
}

Result<Bytes> message_in(const TensorDict& dict, const std::string& name) {
  const auto at = dict.find(name);
  if (at == dict.end() || at->second.scalar_type() != at::kByte || at->second.dim() != 1)
    return fail(Error::kInvalid, "there is no message '{}'", name);
  const auto flat = at->second.contiguous();
  const auto* from = flat.data_ptr<uint8_t>();
  return Bytes(from, from + flat.numel());
}

Result<TensorDict> HeldUploads::hold(const SumAsk& ask, TensorDict up, double loss, uint64_t key) {
  auto held = std::make_shared<Held>();
  held->round = ask.round, held->attempt = ask.attempt;
  held->up = guard_.protect(std::move(up), ask.down, key);
  held->loss = loss, held->key = key;
  held->noisy = guard_.noisy(held->up, ask.down);
  for (const auto& [name, tensor] : held->up)
    if (!at::isfinite(tensor).all().item<bool>())
      return fail(Error::kInvalid, "'{}' is not finite", name);
  TESSERA_ASSIGN(const auto exponent, weight_exponent(largest_count(held->up, guard_.parts())));
  const std::scoped_lock lock(mutex_);
  held_[ask.client] = std::move(held);
  return TensorDict{{"exponent", at::scalar_tensor(exponent, at::kLong)}};
}

std::shared_ptr<HeldUploads::Held> HeldUploads::find(const SumAsk& ask) {
  const std::scoped_lock lock(mutex_);
  const auto at = held_.find(ask.client);
  if (at == held_.end() || at->second->round != ask.round || at->second->attempt != ask.attempt)
    return nullptr;
  return at->second;
}

void HeldUploads::drop(const SumAsk& ask) {
  const std::scoped_lock lock(mutex_);
  const auto at = held_.find(ask.client);
  if (at != held_.end() && at->second->round == ask.round && at->second->attempt == ask.attempt)
    held_.erase(at);
}

Result<Bytes> HeldUploads::advertise(const SumAsk& ask, Held& held) const {
  if (held.masked)
    return fail(Error::kInvalid, "its upload was masked before; there is no second sum of it");
  TESSERA_ASSIGN(const auto plan, message_in(ask.down, "plan"));
  const auto exponent = ask.down.find("exponent");
  if (exponent == ask.down.end() || exponent->second.scalar_type() != at::kLong ||
      exponent->second.dim() != 0)
    return fail(Error::kInvalid, "there is no 'exponent' with the plan");
  held.exponent = exponent->second.item<int64_t>();
  TESSERA_ASSIGN(auto part, SecureSumClient::create(plan, ask.client, held.entropy));
  const auto& agreed = part.plan();
  if (static_cast<int64_t>(agreed.round) != ask.round)
    return fail(Error::kInvalid, "the plan is of round {}", agreed.round);
  if (const auto words = upload_words(held.up, guard_.parts()); agreed.words != words)
    return fail(Error::kInvalid, "the plan is for {} words, its upload has {}", agreed.words,
                words);
  held.part.emplace(std::move(part));
  return held.part->advertise();
}

Result<Bytes> HeldUploads::mask(const SumAsk& ask, Held& held) const {
  TESSERA_ASSIGN(const auto shares, message_in(ask.down, "shares"));
  if (held.masked) return fail(Error::kInvalid, "its upload was masked before");
  const auto clients = held.part->plan().clients.size();
  guard_.add_share_of_noise(held.up, held.noisy, static_cast<int64_t>(sum_threshold(clients)),
                            held.key);
  held.masked = true;
  const auto up = std::exchange(held.up, {});
  const double loss = guard_.hides_loss() ? 0 : held.loss;
  TESSERA_ASSIGN(auto words, to_words(up, guard_.parts(), loss,
                                      {.guard = *guard_.options().secure,
                                       .exponent = held.exponent,
                                       .clients = static_cast<int64_t>(clients)}));
  return held.part->mask(shares, std::move(words));
}

Result<TensorDict> HeldUploads::answer(const SumAsk& ask) {
  const auto held = find(ask);
  if (!held)
    return fail(Error::kNotFound,
                "it holds no upload of this round any more: it was started again since it trained");
  const auto reply = [](const char* name, const Result<Bytes>& message) -> Result<TensorDict> {
    if (!message.ok()) return message.status();
    return TensorDict{{name, tensor_of_message(*message)}};
  };
  if (ask.down.contains("plan")) return reply("keys", advertise(ask, *held));
  if (!held->part) return fail(Error::kInvalid, "the server goes on with a sum that has no plan");
  if (ask.down.contains("keys")) {
    TESSERA_ASSIGN(const auto keys, message_in(ask.down, "keys"));
    return reply("shares", held->part->share(keys));
  }
  if (ask.down.contains("shares")) return reply("masked", mask(ask, *held));
  TESSERA_ASSIGN(const auto request, message_in(ask.down, "request"));
  return reply("reveal", held->part->unmask(request));
}

}  // namespace tessera

#include "guard/secure_aggregation/sum/secure_sum.hpp"

#include <algorithm>

namespace tessera {
namespace {

// Those variants of a desk that still wait for something.
template <class T>
constexpr bool is_desk = requires(const T& desk) {
  desk.asked();
};

Status refused_kind(int64_t sender, const SumMessage& message) {
  return fail(Error::kInvalid, "client {} sent its {} too late or too early in this secure sum",
              sender, sum_message_name(message));
}

}  // namespace

Result<SecureSumClient> SecureSumClient::create(ByteSpan plan, int64_t me, Entropy& entropy) {
  TESSERA_ASSIGN(auto agreed, decode_sum_message_as<SumPlan>(plan, "plan"));
  TESSERA_ASSIGN(auto step, SumAdvertiseStep::create(agreed, me));
  return SecureSumClient(std::move(agreed), std::move(step), entropy);
}

// The step, which is then gone from here: whatever happens to it, it is not asked twice.
template <class Wanted>
Result<Wanted> SecureSumClient::take(const char* name) {
  if (const auto* over = std::get_if<Over>(&step_))
    return fail(Error::kInvalid, "a secure sum cannot {}: it is over ({})", name, over->why);
  if (!std::holds_alternative<Wanted>(step_))
    return give_up(fail(Error::kInvalid, "the server asks to {} out of turn", name));
  Wanted out = std::move(std::get<Wanted>(step_));
  step_ = Over{"it failed"};
  return out;
}

Status SecureSumClient::give_up(const Status& status) {
  step_ = Over{message(status)};
  return status;
}

Result<Bytes> SecureSumClient::advertise() {
  TESSERA_ASSIGN(auto step, take<SumAdvertiseStep>("advertise"));
  auto [answer, next] = std::move(step).run(*entropy_);
  step_ = std::move(next);
  return encode_sum_message(answer);
}

Result<Bytes> SecureSumClient::share(ByteSpan key_list) {
  TESSERA_ASSIGN(auto step, take<SumShareStep>("share"));
  const auto list = decode_sum_message_as<SumKeyList>(key_list, "key list");
  if (!list.ok()) return give_up(list.status());
  auto done = std::move(step).run(*list, *entropy_);
  if (!done.ok()) return give_up(done.status());
  step_ = std::move(done->second);
  return encode_sum_message(std::move(done->first));
}

Result<Bytes> SecureSumClient::mask(ByteSpan delivery, std::vector<uint64_t> words) {
  TESSERA_ASSIGN(auto step, take<SumMaskStep>("mask"));
  const auto packets = decode_sum_message_as<SumDelivery>(delivery, "delivery");
  if (!packets.ok()) return give_up(packets.status());
  auto done = std::move(step).run(*packets, std::move(words));
  if (!done.ok()) return give_up(done.status());
  step_ = std::move(done->second);
  return encode_sum_message(std::move(done->first));
}

Result<Bytes> SecureSumClient::unmask(ByteSpan request) {
  TESSERA_ASSIGN(auto step, take<SumUnmaskStep>("unmask"));
  const auto lists = decode_sum_message_as<SumRequest>(request, "request");
  if (!lists.ok()) return give_up(lists.status());
  auto reveal = std::move(step).run(*lists);
  if (!reveal.ok()) return give_up(reveal.status());
  step_ = Over{"all is done"};
  return encode_sum_message(*std::move(reveal));
}

Result<SecureSumServer> SecureSumServer::create(SumPlan plan) {
  TESSERA_ASSIGN(auto desk, SumKeyDesk::create(std::move(plan)));
  return SecureSumServer(std::move(desk));
}

std::vector<int64_t> SecureSumServer::asked() const {
  return std::visit(
      [](const auto& desk) -> std::vector<int64_t> {
        if constexpr (is_desk<std::remove_cvref_t<decltype(desk)>>) return desk.asked();
        return {};
      },
      desk_);
}

Result<Bytes> SecureSumServer::message_for(int64_t client) const {
  const auto asked_now = asked();
  if (!std::binary_search(asked_now.begin(), asked_now.end(), client))
    return fail(Error::kInvalid, "client {} is not asked anything in this secure sum now", client);
  return std::visit(
      [&](const auto& desk) -> Result<Bytes> {
        if constexpr (is_desk<std::remove_cvref_t<decltype(desk)>>)
          return encode_sum_message(desk.message_for(client));
        return fail(Error::kInternal, "a secure sum is over and asks nobody");
      },
      desk_);
}

Status SecureSumServer::receive(int64_t sender, ByteSpan bytes) {
  TESSERA_ASSIGN(const auto any,
                 decode_sum_message(bytes, fmt::format("a message of client {}", sender)));
  return std::visit(
      [&](auto& desk, const auto& message) -> Status {
        if constexpr (requires { desk.add(message); }) {
          if (message.client != sender)
            return fail(Error::kInvalid, "client {} sent a message in the name of client {}",
                        sender, message.client);
          return desk.add(message);
        } else {
          return refused_kind(sender, any);
        }
      },
      desk_, any);
}

SumStage SecureSumServer::advance() {
  std::visit(
      [this](auto& desk) {
        if constexpr (is_desk<std::remove_cvref_t<decltype(desk)>>) {
          auto next = std::move(desk).close();
          std::visit([this](auto& value) { desk_ = std::move(value); }, next);
        }
      },
      desk_);
  return stage();
}

}  // namespace tessera

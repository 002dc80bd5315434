#include "guard/secure_aggregation/hidden_sum.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/key.hpp"
#include "guard/secure_aggregation/held_uploads.hpp"
#include "guard/secure_aggregation/upload_words.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

/// What a step is called, what it sends and what comes back.
struct StepWords {
  const char* name;
  const char* down;
  const char* up;
};
StepWords words_of(SumStage stage) {
  switch (stage) {
    case SumStage::kKeys:
      return {"keys", "plan", "keys"};
    case SumStage::kShares:
      return {"shares", "keys", "shares"};
    case SumStage::kVectors:
      return {"masking", "shares", "masked"};
    default:
      return {"unmasking", "request", "reveal"};
  }
}

/// The same for the same clients of the same attempt: a server that was killed asks for the very
/// same work (docs/decisions/016). Keys and masks are the clients' own, and fresh.
uint64_t session_key(const HiddenRound& round) {
  auto key = derive(round.seed, Purpose::kGuard, round.round, round.attempt);
  for (const auto& [client, exponent] : round.exponents) key = derive(key, client, exponent);
  return key;
}

/// One sum on its way.
class Summing {
 public:
  Summing(const HiddenRound& round, SecureSumServer server, int64_t exponent, HiddenSum& out)
      : round_(round),
        server_(std::move(server)),
        exponent_(exponent),
        most_message_(
            hidden_traffic(round.expected, round.guard.parts(), std::ssize(round.exponents)).up),
        out_(out) {}

  /// True: there is a sum.
  bool play() {
    while (server_.stage() < SumStage::kDone) {
      step();
      if (!out_.interrupted.ok()) return false;
      server_.advance();
    }
    return server_.stage() == SumStage::kDone;
  }
  const SecureSumServer& server() const { return server_; }
  /// There is no sum: everybody has a problem, but those whom chance took.
  void fail_all(const std::string& why) {
    out_.failure = why;
    out_.dropped = std::ssize(by_chance_);
    out_.at_fault = !out_.problems.empty() || !late_.empty();
    out_.problems.insert(out_.problems.end(), late_.begin(), late_.end());
    std::vector<ClientId> named = by_chance_;
    for (const auto& problem : out_.problems) named.push_back(problem.client);
    for (const auto& [client, exponent] : round_.exponents)
      if (std::find(named.begin(), named.end(), client) == named.end())
        out_.problems.push_back({client, "there is no secure sum: " + why});
  }

 private:
  void step() {
    const auto stage = server_.stage();
    const auto asked = server_.asked();
    double slowest = 0;
    std::map<ClientId, int64_t> sent;
    std::vector<SumAsk> asks;
    for (const ClientId client : asked) {
      auto down = message_for(client, stage);
      sent[client] = payload_bytes(down);
      out_.bytes_down += sent[client];
      if (round_.lost(client, stage)) {
        out_.wire_down += encoded_size(down);
        out_.dropped += stage < SumStage::kReveals;
        by_chance_.push_back(client);
        continue;
      }
      asks.push_back({client, round_.round, round_.attempt, std::move(down)});
    }
    round_.ask(std::move(asks), most_message_, [&](const SumAnswer& answer) {
      slowest = std::max(slowest,
                         round_.clock(answer.client, sent[answer.client] + payload_bytes(answer.up),
                                      answer.cpu_seconds));
      take(answer, stage);
    });
    out_.sim_seconds += slowest;
  }

  TensorDict message_for(ClientId client, SumStage stage) {
    if (stage != SumStage::kKeys)
      return {{words_of(stage).down, tensor_of_message(*server_.message_for(client))}};
    // The plan is the same for all; as one tensor it travels once to a rank.
    if (plan_.empty())
      plan_ = {{"plan", tensor_of_message(*server_.message_for(client))},
               {"exponent", at::scalar_tensor(exponent_, at::kLong)}};
    return plan_;
  }

  void take(const SumAnswer& reply, SumStage stage) {
    out_.bytes_up += payload_bytes(reply.up);
    out_.wire_down += reply.wire_down, out_.wire_up += reply.wire_up;
    auto status = reply.status;
    if (error_of(status) == Error::kInterrupted) out_.interrupted = status;
    if (status.ok()) {
      const auto message = message_in(reply.up, words_of(stage).up);
      status = message.ok() ? server_.receive(reply.client, *message) : message.status();
    }
    if (status.ok()) return;
    // Who is lost at the end has its upload in the sum all the same.
    const auto reason = fmt::format("{}: {}", words_of(stage).name, message(status));
    (stage == SumStage::kReveals ? late_ : out_.problems).push_back({reply.client, reason});
  }

  const HiddenRound& round_;
  SecureSumServer server_;
  int64_t exponent_;
  int64_t most_message_;  // bytes: all that a client sends in four steps, so each is below it
  HiddenSum& out_;
  TensorDict plan_;
  std::vector<ClientId> by_chance_;  // lost by it
  std::vector<SumLoss> late_;        // of the last step
};

}  // namespace

HiddenSum sum_hidden(const HiddenRound& round) {
  HiddenSum out;
  std::vector<int64_t> clients;
  int64_t exponent = 0;
  for (const auto& [client, told] : round.exponents)
    clients.push_back(client), exponent = std::max(exponent, told);
  const WordScale scale{
      .guard = *round.guard.options().secure, .exponent = exponent, .clients = std::ssize(clients)};
  SeededEntropy entropy(session_key(round));
  auto plan =
      make_sum_plan(static_cast<uint64_t>(round.round),
                    upload_words(round.expected, round.guard.parts()), std::move(clients), entropy);
  auto server = plan.ok() ? SecureSumServer::create(*std::move(plan))
                          : Result<SecureSumServer>(plan.status());
  if (!server.ok()) {
    out.failure = message(server.status());
    for (const auto& [client, told] : round.exponents)
      out.problems.push_back({client, "there is no secure sum: " + out.failure});
    return out;
  }
  Summing summing(round, *std::move(server), exponent, out);
  if (!summing.play()) {
    if (!out.interrupted.ok()) return out;
    const auto& abort = summing.server().abort();
    summing.fail_all(abort.reason);
    out.at_fault = out.at_fault || !abort.blamed.empty();
    return out;
  }
  const auto& outcome = summing.server().outcome();
  auto summed = from_words(outcome.words, round.expected, round.guard.parts(), scale);
  if (!summed.ok()) {
    summing.fail_all(message(summed.status()));
    out.at_fault = true;
    return out;
  }
  out.counted = outcome.counted;
  out.mean = std::move(summed->mean);
  out.loss = round.guard.hides_loss() ? std::nan("")
                                      : summed->loss / static_cast<double>(out.counted.size());
  return out;
}

SumTraffic hidden_traffic(const TensorDict& expected, const MessageParts& parts, int64_t clients) {
  const auto n = static_cast<size_t>(std::max(clients, int64_t{kLeastSumClients}));
  const size_t holders = sum_degree(n) + 1;
  const auto size = [](const SumMessage& message) {
    return std::ssize(encode_sum_message(message));
  };
  // Lists that ascend are not needed: nobody reads these.
  SumPlan plan{.clients = std::vector<int64_t>(n)};
  SumKeyList keys{.keys = std::vector<PeerKeys>(holders)};
  SumShares shares{.packets = std::vector<SharePacket>(holders)};
  SumDelivery delivery{.packets = shares.packets};
  SumRequest request{.survivors = std::vector<int64_t>(holders)};
  SumReveal reveal{.seeds = std::vector<RevealedShare>(holders)};
  return {.down = size(plan) + size(keys) + size(delivery) + size(request),
          .up = size(SumKeys{}) + size(shares) + size(SumMasked{}) +
                8 * static_cast<int64_t>(upload_words(expected, parts)) + size(reveal)};
}

}  // namespace tessera

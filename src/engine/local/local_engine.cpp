#include "engine/local/local_engine.hpp"

#include <algorithm>

#include "base/parallel.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

// What a network does to a message.
Status through_wire(TensorDict& message, const char* what) {
  auto bytes = std::make_shared<const Bytes>(encode(message));
  TESSERA_ASSIGN(auto decoded, decode(std::move(bytes), what));
  message = std::move(decoded.tensors);
  return ok();
}

}  // namespace

LocalEngine::LocalEngine(std::vector<ClientRuntime> clients, LocalEngineOptions options)
    : clients_(std::move(clients)), options_(std::move(options)) {}

Reply LocalEngine::one(Outgoing message) {
  Reply reply{.client = message.client, .base_round = message.round};
  if (stopped()) {
    reply.status = fail(Error::kInterrupted, "stopped");
    return reply;
  }
  const int64_t wire_down = encoded_size(message.down);
  if (options_.through_wire) reply.status = through_wire(message.down, "download");
  if (reply.status.ok()) reply = clients_[static_cast<size_t>(message.client)].update(message);
  reply.wire_down = wire_down;
  if (reply.status.ok()) reply.wire_up = encoded_size(reply.up);
  if (options_.through_wire && reply.status.ok()) reply.status = through_wire(reply.up, "upload");
  if (options_.on_client) options_.on_client();
  return reply;
}

std::vector<Reply> LocalEngine::exchange(std::vector<Outgoing> messages) {
  std::vector<Reply> replies(messages.size());
  waiting_.clear();
  for (const auto& message : messages) waiting_.push_back(message.client);
  parallel_for(static_cast<int64_t>(messages.size()), options_.threads, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    replies[at] = one(std::move(messages[at]));
  });
  return replies;
}

void LocalEngine::acknowledge(std::span<const ClientId> accepted) {
  for (const ClientId id : waiting_) {
    const bool kept = std::find(accepted.begin(), accepted.end(), id) != accepted.end();
    clients_[static_cast<size_t>(id)].acknowledge(kept);
  }
  waiting_.clear();
}

std::vector<Evaluation> LocalEngine::evaluate(std::vector<EvalRequest> requests,
                                              const PersonalSink& sink) {
  std::vector<Evaluation> out(requests.size());
  parallel_for(static_cast<int64_t>(requests.size()), options_.threads, [&](int64_t i) {
    auto& request = requests[static_cast<size_t>(i)];
    auto& result = out[static_cast<size_t>(i)];
    result.client = request.message.client;
    if (stopped()) {
      result.status = fail(Error::kInterrupted, "stopped");
      return;
    }
    if (options_.through_wire) result.status = through_wire(request.message.down, "download");
    if (result.status.ok())
      result = clients_[static_cast<size_t>(request.message.client)].evaluate(request, sink);
    if (options_.through_wire && result.status.ok())
      result.status = through_wire(result.notes, "notes");
    if (options_.on_client) options_.on_client();
  });
  return out;
}

std::vector<std::pair<ClientId, TensorDict>> LocalEngine::states() const {
  std::vector<std::pair<ClientId, TensorDict>> out;
  for (size_t id = 0; id < clients_.size(); ++id)
    if (clients_[id].has_state()) out.emplace_back(static_cast<ClientId>(id), clients_[id].state());
  return out;
}

void LocalEngine::restore(ClientId client, TensorDict state) {
  clients_[static_cast<size_t>(client)].restore(std::move(state));
}

void LocalEngine::forget(ClientId client) { clients_[static_cast<size_t>(client)].forget(); }

}  // namespace tessera

// The file is a message to both sides of a secure sum. What can be read is written as it was, and
// whatever it says, no side falls over; a server that refuses it still comes to the right sum.
#include <array>
#include <memory>

#include "expect.hpp"
#include "guard/secure_aggregation/sum/secure_sum.hpp"

namespace {

using namespace tessera;

const std::vector<int64_t> kIds = {1, 2, 5};
constexpr size_t kWords = 4;

// The session is the corpus's, so that a fuzzer gets beyond the first check.
SumPlan fuzz_plan() {
  SumPlan plan{.round = 3, .words = kWords, .degree = 2, .clients = kIds};
  for (size_t i = 0; i < plan.session.size(); ++i) plan.session[i] = static_cast<uint8_t>(i);
  return plan;
}

// A sum as it is when a stage begins.
struct Stage {
  std::unique_ptr<SecureSumServer> server;
  Bytes first_hears;        // the server's message to the first client
  std::vector<Bytes> good;  // what the server waits for, by client
};

Result<Bytes> fuzz_answer(SecureSumClient& client, SumStage stage, ByteSpan message) {
  switch (stage) {
    case SumStage::kKeys:
      return client.advertise();
    case SumStage::kShares:
      return client.share(message);
    case SumStage::kVectors:
      return client.mask(message, std::vector<uint64_t>(kWords, 7));
    default:
      return client.unmask(message);
  }
}

SecureSumClient fuzz_client(int64_t id, Entropy& entropy) {
  return *SecureSumClient::create(encode_sum_message(fuzz_plan()), id, entropy);
}

std::vector<Stage> play_stages() {
  std::array<SeededEntropy, 3> entropies = {SeededEntropy(1), SeededEntropy(2), SeededEntropy(3)};
  std::vector<SecureSumClient> clients;
  for (size_t i = 0; i < kIds.size(); ++i) clients.push_back(fuzz_client(kIds[i], entropies[i]));
  auto server = *SecureSumServer::create(fuzz_plan());
  std::vector<Stage> out;
  while (server.stage() < SumStage::kDone) {
    Stage stage{std::make_unique<SecureSumServer>(server), *server.message_for(kIds[0]), {}};
    for (size_t i = 0; i < kIds.size(); ++i) {
      stage.good.push_back(*fuzz_answer(clients[i], server.stage(), *server.message_for(kIds[i])));
      expect(server.receive(kIds[i], stage.good[i]).ok(), "a good message is taken");
    }
    server.advance();
    out.push_back(std::move(stage));
  }
  expect(server.outcome().words == std::vector<uint64_t>(kWords, 21), "the plain sum");
  return out;
}

void expect_server_stands(const Stage& stage, ByteSpan file) {
  auto server = *stage.server;
  const bool taken = server.receive(1, file).ok();
  const bool good_taken = server.receive(1, stage.good[0]).ok();
  expect(taken != good_taken, "the first good message counts, a bad one does not");
  for (size_t i = 1; i < kIds.size(); ++i)
    expect(server.receive(kIds[i], stage.good[i]).ok(), "others are not touched");
  const auto next = server.advance();
  expect(taken || next != SumStage::kAborted, "what was refused does no harm");
  if (next < SumStage::kDone)
    for (const auto id : server.asked()) expect(server.message_for(id).ok(), "all are asked");
}

// The first client hears the file instead of the server's message of some stage.
void expect_client_stands(const std::vector<Stage>& stages, size_t last, ByteSpan file) {
  SeededEntropy entropy(1);
  auto client = fuzz_client(kIds[0], entropy);
  for (size_t i = 0; i < last; ++i)
    expect(fuzz_answer(client, static_cast<SumStage>(i), stages[i].first_hears).ok(), "as before");
  const auto reply = fuzz_answer(client, static_cast<SumStage>(last), file);
  if (!reply.ok()) {
    const auto again = fuzz_answer(client, static_cast<SumStage>(last), stages[last].first_hears);
    expect(!again.ok(), "who refused once is through with it");
    return;
  }
  const auto message = *decode_sum_message(*reply, "reply");
  if (const auto* reveal = std::get_if<SumReveal>(&message))
    for (const auto& seed : reveal->seeds)
      for (const auto& key : reveal->keys)
        expect(seed.peer != key.peer, "never both kinds of share");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto stages = play_stages();
  const ByteSpan file(data, size);
  const auto message = decode_sum_message(file, "fuzz");
  if (message.ok()) {
    const auto again = encode_sum_message(*message);
    expect(std::equal(again.begin(), again.end(), file.begin(), file.end()), "one way to write it");
    if (const auto* plan = std::get_if<SumPlan>(&*message); plan && plan->clients.size() < 500) {
      const SumGraph graph(*plan);
      expect(graph.holders(plan->clients[0]).size() == graph.scheme().count, "a share for each");
    }
    if (std::holds_alternative<SumKeyList>(*message)) expect_client_stands(stages, 1, file);
    if (std::holds_alternative<SumDelivery>(*message)) expect_client_stands(stages, 2, file);
    if (std::holds_alternative<SumRequest>(*message)) expect_client_stands(stages, 3, file);
  }
  for (const auto& stage : stages) expect_server_stands(stage, file);
  return 0;
}

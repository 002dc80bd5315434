// A secure sum in one room, for tests: a server and its clients, step by step.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "base/key.hpp"
#include "guard/secure_aggregation/sum/secure_sum.hpp"
#include "privacy/testing.hpp"

namespace tessera::testing {

/// 0, 3, 8, 15, …: ids are not places.
inline std::vector<int64_t> some_ids(size_t count) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<int64_t>(i * i + 2 * i));
  return out;
}

class SumRoom {
 public:
  SumRoom(const std::vector<int64_t>& ids, size_t words, uint64_t seed = 1)
      : SumRoom(plan_for(ids, words, seed), seed) {}
  SumRoom(const SumPlan& plan, uint64_t seed)
      : server(*SecureSumServer::create(plan)), seed_(seed), plan_(plan) {
    for (const auto id : plan.clients) {
      Rng rng(derive(seed, id));
      auto& vector = vectors[id];
      for (uint32_t i = 0; i < plan.words; ++i) vector.push_back(rng.bits());
    }
  }

  static SumPlan plan_for(const std::vector<int64_t>& ids, size_t words, uint64_t seed) {
    SeededEntropy entropy(seed);
    return *make_sum_plan(5, words, ids, entropy);
  }
  /// The seed of a client's entropy: its first 96 bytes are the secret halves of its sealing and
  /// masking keys and its own mask's seed.
  uint64_t entropy_seed(int64_t id) const { return derive(seed_, 77, id); }

  SecureSumClient& client(int64_t id) {
    const auto found = clients_.find(id);
    if (found != clients_.end()) return found->second;
    entropies_.push_back(std::make_unique<SeededEntropy>(entropy_seed(id)));
    auto made = *SecureSumClient::create(encode_sum_message(plan_), id, *entropies_.back());
    return clients_.emplace(id, std::move(made)).first->second;
  }
  /// What the client answers to the server's present message.
  Result<Bytes> answer(int64_t id) {
    TESSERA_ASSIGN(const auto message, server.message_for(id));
    return answer_to(id, message);
  }
  Result<Bytes> answer_to(int64_t id, ByteSpan message) {
    switch (server.stage()) {
      case SumStage::kKeys:
        return client(id).advertise();
      case SumStage::kShares:
        return client(id).share(message);
      case SumStage::kVectors:
        return client(id).mask(message, vectors.at(id));
      case SumStage::kReveals:
        return client(id).unmask(message);
      default:
        return fail(Error::kInvalid, "the room is closed");
    }
  }
  /// All that are asked answer, but for some; then the next stage.
  void play(const std::set<int64_t>& absent = {}) {
    for (const auto id : server.asked()) {
      if (absent.contains(id)) continue;
      const auto bytes = answer(id);
      ASSERT_THAT(bytes, Succeeds()) << id;
      traffic.push_back(*bytes);
      ASSERT_THAT(server.receive(id, *bytes), Succeeds()) << id;
    }
    server.advance();
  }
  /// The plain sum.
  std::vector<uint64_t> sum_of(const std::vector<int64_t>& ids) const {
    std::vector<uint64_t> out(plan_.words);
    for (const auto id : ids)
      for (size_t i = 0; i < out.size(); ++i) out[i] += vectors.at(id)[i];
    return out;
  }
  void expect_sum_of(const std::vector<int64_t>& ids) const {
    ASSERT_EQ(server.stage(), SumStage::kDone)
        << (server.stage() == SumStage::kAborted ? server.abort().reason : "not over");
    EXPECT_EQ(server.outcome().counted, ids);
    EXPECT_EQ(server.outcome().words, sum_of(ids));
  }
  void expect_abort(std::string_view reason, const std::vector<int64_t>& blamed = {}) const {
    ASSERT_EQ(server.stage(), SumStage::kAborted);
    EXPECT_NE(server.abort().reason.find(reason), std::string::npos) << server.abort().reason;
    EXPECT_EQ(server.abort().blamed, blamed);
  }

  SecureSumServer server;
  std::map<int64_t, std::vector<uint64_t>> vectors;
  std::vector<Bytes> traffic;  // all that clients sent

 private:
  uint64_t seed_;
  SumPlan plan_;
  std::vector<std::unique_ptr<SeededEntropy>> entropies_;
  std::map<int64_t, SecureSumClient> clients_;
};

/// A message of one kind, changed by `edit`.
template <class T, class Edit>
Bytes edited(ByteSpan bytes, Edit edit) {
  auto message = *decode_sum_message_as<T>(bytes, "edited");
  edit(message);
  return encode_sum_message(message);
}

}  // namespace tessera::testing

#include "guard/secure_aggregation/held_uploads.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <map>

#include "guard/secure_aggregation/upload_words.hpp"
#include "guard/testing.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

Guard hiding() {
  GuardOptions options;
  options.secure.emplace();
  return Guard(options, {.parts = testing::fedavg_parts()});
}

TensorDict upload(ClientId id) {
  return {{"value.w", at::full({3}, 0.5 * static_cast<double>(id + 1))},
          {"weight", at::scalar_tensor(static_cast<double>(id + 1), at::kDouble)}};
}

/// Three clients that have trained, and a server that asks them.
struct Room {
  explicit Room(uint64_t seed = 1) : server(*SecureSumServer::create(plan(seed))) {
    for (ClientId id = 0; id < 3; ++id) held_up[id] = *held.hold(task(id), upload(id), 1, 7);
  }
  static SumPlan plan(uint64_t seed) {
    SeededEntropy entropy(seed);
    return *make_sum_plan(4, 5, {0, 1, 2}, entropy);
  }
  static SumAsk task(ClientId id, TensorDict down = {}) {
    return {.client = id, .round = 4, .attempt = 2, .down = std::move(down)};
  }
  /// What the server sends to a client now.
  TensorDict message(ClientId id) const {
    constexpr std::array kNames{"plan", "keys", "shares", "request"};
    const auto stage = server.stage();
    TensorDict out{
        {kNames[static_cast<size_t>(stage)], tensor_of_message(*server.message_for(id))}};
    if (stage == SumStage::kKeys) out.emplace("exponent", at::scalar_tensor(2, at::kLong));
    return out;
  }
  /// All of `who` answer, and the server goes on.
  SumStage step(const std::vector<ClientId>& who = {0, 1, 2}) {
    for (const ClientId id : who) {
      const auto reply = held.answer(task(id, message(id)));
      EXPECT_THAT(reply, Succeeds());
      EXPECT_EQ(reply->size(), 1U);
      const auto answer = message_in(*reply, reply->begin()->first);
      EXPECT_THAT(server.receive(id, *answer), Succeeds());
    }
    return server.advance();
  }

  Guard guard = hiding();
  HeldUploads held{guard};
  SecureSumServer server;
  std::map<ClientId, TensorDict> held_up;
};

TEST(HeldUploads, LeaveAsTheirSum) {
  Room room;
  for (const auto& [id, told] : room.held_up) {
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told.at("exponent").item<int64_t>(), id);  // of 1, 2 and 3: 0, 1 and 2
  }
  for (int i = 0; i < 3; ++i) room.step();
  ASSERT_EQ(room.step(), SumStage::kDone);
  const auto mean = from_words(room.server.outcome().words, upload(0), *testing::fedavg_parts(),
                               {.guard = {}, .exponent = 2, .clients = 3});
  ASSERT_THAT(mean, Succeeds());
  EXPECT_NEAR(mean->mean.at("value.w")[1].item<double>(), (0.5 + 2 * 1.0 + 3 * 1.5) / 6, 1e-7);
  EXPECT_EQ(mean->mean.at("weight").item<double>(), 6);
  EXPECT_EQ(mean->loss, 3);
}

TEST(HeldUploads, AreGoneForAHostThatWasStartedAgain) {
  Room room;
  room.step();
  HeldUploads fresh(room.guard);
  EXPECT_THAT(fresh.answer(Room::task(1, room.message(1))),
              FailsWith(Error::kNotFound, "it was started again since it trained"));
  auto other = Room::task(1, room.message(1));
  other.attempt = 3;
  EXPECT_THAT(room.held.answer(other), FailsWith(Error::kNotFound, "holds no upload"));
  room.held.drop(other);  // about another attempt: nothing happens
  EXPECT_THAT(room.held.answer(Room::task(1, room.message(1))), Succeeds());
  room.held.drop(Room::task(2));
  EXPECT_THAT(room.held.answer(Room::task(2, room.message(2))),
              FailsWith(Error::kNotFound, "holds no upload"));
}

// A server that was killed may begin anew, but not once an upload has left under masks: two sums
// that differ in one client would show that client's.
TEST(HeldUploads, AreMaskedOnce) {
  Room room;
  room.step();
  room.server = *SecureSumServer::create(Room::plan(2));
  room.step(), room.step(), room.step();
  const auto again = *SecureSumServer::create(Room::plan(3));
  const TensorDict plan{{"plan", tensor_of_message(*again.message_for(0))},
                        {"exponent", at::scalar_tensor(2, at::kLong)}};
  EXPECT_THAT(room.held.answer(Room::task(0, plan)),
              FailsWith(Error::kInvalid, "there is no second sum of it"));
  EXPECT_EQ(room.step(), SumStage::kDone);
  const auto request = encode_sum_message(SumRequest{Room::plan(2).session, {0, 1}, {2}});
  EXPECT_THAT(room.held.answer(Room::task(0, {{"request", tensor_of_message(request)}})),
              FailsWith(Error::kInvalid, "it is over"));
}

TEST(HeldUploads, FollowNoPlanOfAnotherRoundOrForm) {
  Room room;
  EXPECT_THAT(room.held.answer(Room::task(0, {{"keys", tensor_of_message({1})}})),
              FailsWith(Error::kInvalid, "has no plan"));
  auto plan = Room::plan(1);
  const auto answer = [&] {
    return room.held.answer(Room::task(0, {{"plan", tensor_of_message(encode_sum_message(plan))},
                                           {"exponent", at::scalar_tensor(2, at::kLong)}}));
  };
  plan.words = 6;
  EXPECT_THAT(answer(), FailsWith(Error::kInvalid, "for 6 words, its upload has 5"));
  plan.words = 5, plan.round = 5;
  EXPECT_THAT(answer(), FailsWith(Error::kInvalid, "of round 5"));
  plan.round = 4;
  EXPECT_THAT(answer(), Succeeds());
  EXPECT_THAT(room.held.answer(Room::task(0, {{"plan", at::zeros({4})}})),
              FailsWith(Error::kInvalid, "no message 'plan'"));
  EXPECT_THAT(room.held.answer(Room::task(0)), FailsWith(Error::kInvalid, "no message 'request'"));
  auto bad = upload(0);
  bad["value.w"] = at::full({3}, INFINITY);
  EXPECT_THAT(room.held.hold(Room::task(0), bad, 0, 7),
              FailsWith(Error::kInvalid, "'value.w' is not finite"));
}

}  // namespace
}  // namespace tessera

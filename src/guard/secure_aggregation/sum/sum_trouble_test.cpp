// Clients and servers that do not keep to the protocol.
#include <functional>

#include "guard/secure_aggregation/sum/secure_sum.hpp"
#include "guard/secure_aggregation/sum/sum_testing.hpp"

namespace tessera {
namespace {

using testing::edited;
using testing::FailsWith;
using testing::some_ids;
using testing::Succeeds;
using testing::SumRoom;

// A room in which some stages have been played by everybody.
SumRoom room_after(int stages, size_t count = 4) {
  SumRoom room(some_ids(count), 3);
  for (int stage = 0; stage < stages; ++stage) room.play();
  return room;
}

TEST(SumTrouble, RefusedMessagesCostOnlyTheirSender) {
  // At each stage: garbage, nothing, the message of the stage before, another session, another's
  // name, one that is cut off, a duplicate. The sum is right all the same.
  SumRoom room(some_ids(4), 3);
  auto& server = room.server;
  Bytes before = encode_sum_message(SumMasked{});
  for (int stage = 0; stage < 4; ++stage) {
    SumRoom other(some_ids(4), 3, 99);
    for (int again = 0; again < stage; ++again) other.play();
    EXPECT_THAT(server.receive(0, testing::to_bytes("garbage")),
                FailsWith(Error::kInvalid, "a message of client 0: is no message"));
    EXPECT_THAT(server.receive(0, {}), FailsWith(Error::kInvalid, "a message of client 0"));
    EXPECT_THAT(server.receive(0, before), FailsWith(Error::kInvalid, "client 0 sent its"));
    EXPECT_THAT(server.receive(0, *other.answer(0)), FailsWith(Error::kInvalid, "another secure"));
    const auto good = *room.answer(0);
    EXPECT_THAT(server.receive(3, good), FailsWith(Error::kInvalid, "in the name of client 0"));
    const auto cut = ByteSpan(good).first(good.size() - 1);
    EXPECT_THAT(server.receive(0, cut), FailsWith(Error::kInvalid, "a message of client 0"));
    EXPECT_THAT(server.receive(0, good), Succeeds());
    EXPECT_THAT(server.receive(0, good), FailsWith(Error::kExists, "client 0 has sent this"));
    before = good;
    for (const int64_t id : {3, 8, 15})
      EXPECT_THAT(server.receive(id, *room.answer(id)), Succeeds());
    server.advance();
  }
  room.expect_sum_of({0, 3, 8, 15});
}

TEST(SumTrouble, StrangersAreNotHeard) {
  auto room = room_after(0);
  auto keys = *decode_sum_message_as<SumKeys>(*room.answer(0), "keys");
  keys.client = 4;
  EXPECT_THAT(room.server.receive(4, encode_sum_message(keys)),
              FailsWith(Error::kInvalid, "client 4 is not part of this secure sum"));
  SeededEntropy entropy(1);
  const auto plan = *room.server.message_for(0);
  EXPECT_THAT(SecureSumClient::create(plan, 4, entropy), FailsWith(Error::kInvalid, "not part"));
  EXPECT_THAT(SecureSumClient::create(*room.answer(3), 3, entropy),
              FailsWith(Error::kInvalid, "plan: is not the kind"));
}

TEST(SumTrouble, WhoWasLostStaysLost) {
  auto room = room_after(0, 5);
  const auto late_keys = *room.answer(0);
  room.play({0});
  SumShares shares{room.client(3).plan().session, 0, {}, {}};
  EXPECT_THAT(room.server.receive(0, late_keys), FailsWith(Error::kInvalid, "keys too late"));
  EXPECT_THAT(room.server.receive(0, encode_sum_message(shares)),
              FailsWith(Error::kInvalid, "client 0 was lost in an earlier step"));
  EXPECT_THAT(room.server.message_for(0), FailsWith(Error::kInvalid, "client 0 is not asked"));
  for (int stage = 1; stage < 4; ++stage) room.play();
  room.expect_sum_of({3, 8, 15, 24});
}

TEST(SumTrouble, KeysOfSmallOrderAreRefused) {
  auto room = room_after(0);
  const auto weak = edited<SumKeys>(*room.answer(0), [](auto& m) { m.masking = {}; });
  EXPECT_THAT(room.server.receive(0, weak), FailsWith(Error::kInvalid, "small order"));
}

TEST(SumTrouble, PacketsForOthersThanTheHoldersAreRefused) {
  auto room = room_after(1);
  const auto good = *room.answer(0);
  EXPECT_THAT(
      room.server.receive(0, edited<SumShares>(good, [](auto& m) { m.packets.pop_back(); })),
      FailsWith(Error::kInvalid, "one packet for each of its 4 holders"));
  EXPECT_THAT(
      room.server.receive(0, edited<SumShares>(good, [](auto& m) { m.packets[3].peer = 99; })),
      FailsWith(Error::kInvalid, "one packet for each"));
  EXPECT_THAT(room.server.receive(0, good), Succeeds());
}

TEST(SumTrouble, VectorsOfAnotherLengthAreRefused) {
  auto room = room_after(2);
  const auto good = *room.answer(0);
  for (const size_t size : {0, 2, 4})
    EXPECT_THAT(
        room.server.receive(0, edited<SumMasked>(good, [&](auto& m) { m.words.resize(size); })),
        FailsWith(Error::kInvalid, "words instead of 3"));
}

TEST(SumTrouble, FalseSharesCostOnlyTheLiar) {
  // 5 clients, 4 needed: one lies, four are true.
  SumRoom room(some_ids(5), 3);
  for (int stage = 0; stage < 3; ++stage) room.play();
  const auto truth = *room.answer(0);
  const auto flip = [](auto& m) { m.seeds[2].value[0] ^= 1; };
  EXPECT_THAT(room.server.receive(0, edited<SumReveal>(truth, flip)),
              FailsWith(Error::kInvalid, "client 0 revealed a false share of client 8"));
  const auto swap = [](auto& m) { std::swap(m.seeds[1].value, m.seeds[2].value); };
  EXPECT_THAT(room.server.receive(0, edited<SumReveal>(truth, swap)),
              FailsWith(Error::kInvalid, "false share of client 3"));
  const auto unasked = [](auto& m) { m.keys.push_back(m.seeds[2]); };
  EXPECT_THAT(room.server.receive(0, edited<SumReveal>(truth, unasked)),
              FailsWith(Error::kInvalid, "share of client 8 that nobody asked for"));
  for (const int64_t id : {3, 8, 15, 24})
    EXPECT_THAT(room.server.receive(id, *room.answer(id)), Succeeds());
  room.server.advance();
  room.expect_sum_of({0, 3, 8, 15, 24});
}

// A room in which client 0's shares were changed on the way out.
SumRoom room_with_bad_shares(const std::function<void(SumShares&)>& edit) {
  auto room = room_after(1, 5);
  const auto bytes = edited<SumShares>(*room.answer(0), edit);
  EXPECT_THAT(room.server.receive(0, bytes), Succeeds());
  for (const int64_t id : {3, 8, 15, 24})
    EXPECT_THAT(room.server.receive(id, *room.answer(id)), Succeeds());
  room.server.advance();
  return room;
}

TEST(SumTrouble, SharesThatNobodyCanOpenEndItAndNameTheirOwner) {
  // Whether the owner stays (its seed cannot be had) or goes (its key cannot).
  for (const auto& absent : {std::set<int64_t>{}, {0}}) {
    auto room = room_with_bad_shares([](SumShares& m) {
      for (auto& packet : m.packets) packet.text[5] ^= 1;
    });
    room.play(absent);
    room.play();
    room.expect_abort("0 shares of client 0's secret came back; 4 are needed", {0});
  }
}

TEST(SumTrouble, OnePacketThatCannotBeOpenedIsNoHarm) {
  auto room = room_with_bad_shares([](SumShares& m) { m.packets[1].text[5] ^= 1; });
  room.play();
  room.play();
  room.expect_sum_of({0, 3, 8, 15, 24});
}

TEST(SumTrouble, CommitmentsThatDoNotFitAreTheOwnersFault) {
  // A holder does not reveal what would make it look like a liar.
  auto room = room_with_bad_shares([](SumShares& m) { m.packets[1].seed[0] ^= 1; });
  room.play();
  room.play();
  room.expect_sum_of({0, 3, 8, 15, 24});
}

TEST(SumTrouble, SharesOfNoOneSeedEndItAndNameTheirOwner) {
  auto room = room_with_bad_shares([](SumShares& m) { m.seed[0] ^= 1; });
  room.play();
  room.play();
  room.expect_abort("client 0 dealt shares that do not fit together", {0});
}

TEST(SumTrouble, SharesOfAnotherKeyEndItAndNameTheirOwner) {
  // Client 0 tells the server a masking key that is not the one it deals out, then is lost.
  SumRoom room(some_ids(5), 3);
  SeededEntropy entropy(1);
  const auto foreign = make_key_pair(entropy).open;
  PublicKey own{};
  const auto told = edited<SumKeys>(*room.answer(0), [&](auto& m) {
    own = m.masking;
    m.masking = foreign;
  });
  EXPECT_THAT(room.server.receive(0, told), Succeeds());
  for (const int64_t id : {3, 8, 15, 24})
    EXPECT_THAT(room.server.receive(id, *room.answer(id)), Succeeds());
  room.server.advance();
  const auto list =
      edited<SumKeyList>(*room.server.message_for(0), [&](auto& m) { m.keys[0].masking = own; });
  EXPECT_THAT(room.server.receive(0, *room.answer_to(0, list)), Succeeds());
  for (const int64_t id : {3, 8, 15, 24})
    EXPECT_THAT(room.server.receive(id, *room.answer(id)), Succeeds());
  room.server.advance();
  room.play({0});
  room.play();
  room.expect_abort("client 0 dealt shares that do not fit together", {0});
}

// What a client says to a request that was changed.
Status reply_to_request(const std::function<void(SumRequest&)>& edit) {
  auto room = room_after(2, 5);
  room.play({24});
  const auto request = edited<SumRequest>(*room.server.message_for(3), edit);
  const auto status = room.client(3).unmask(request).status();
  // Whatever it was: the client is through with this sum, also for the right request.
  EXPECT_THAT(room.client(3).unmask(*room.server.message_for(3)),
              FailsWith(Error::kInvalid, "cannot unmask: it is over"));
  return status;
}

TEST(SumTrouble, NobodyRevealsBothKindsOfShare) {
  EXPECT_THAT(reply_to_request([](SumRequest&) {}), Succeeds());
  EXPECT_THAT(reply_to_request([](SumRequest& m) {
                m.dropped = {8, 24};
              }),
              FailsWith(Error::kInvalid, "both shares of client 8"));
  EXPECT_THAT(reply_to_request([](SumRequest& m) {
                m.survivors = {0, 3, 8, 15, 24};
              }),
              FailsWith(Error::kInvalid, "both shares of client 24"));
}

TEST(SumTrouble, NorInTwoAnswers) {
  // The step itself, without the machine around it.
  auto room = room_after(3, 3);
  std::map<int64_t, SumUnmaskStep::HeldShares> held;
  for (const auto id : some_ids(3)) held[id].good = true;
  const auto plan = room.client(0).plan();
  SumUnmaskStep step({plan.session, 0, 3, 0, some_ids(3), {2, 3}}, held);
  EXPECT_THAT(std::move(step).run({plan.session, {0, 3, 8}, {}}), Succeeds());
  EXPECT_THAT(std::move(step).run({plan.session, {0, 3}, {8}}),  // NOLINT(bugprone-use-after-move)
              FailsWith(Error::kInvalid, "which there is not"));
}

TEST(SumTrouble, RequestsThatNoHonestServerMakesAreRefused) {
  EXPECT_THAT(reply_to_request([](SumRequest& m) { m.session[0] ^= 1; }),
              FailsWith(Error::kInvalid, "another secure sum"));
  EXPECT_THAT(reply_to_request([](SumRequest& m) {
                m.survivors = {0, 3, 8, 15, 16};
              }),
              FailsWith(Error::kInvalid, "share of client 16, which there is not"));
  EXPECT_THAT(reply_to_request([](SumRequest& m) {
                m.survivors = {0, 3, 8};
              }),
              FailsWith(Error::kInvalid, "what became of client 15"));
  EXPECT_THAT(reply_to_request([](SumRequest& m) {
                m = {m.session, {0, 8, 15, 24}, {3}};
              }),
              FailsWith(Error::kInvalid, "lost the vector of client 3"));
  EXPECT_THAT(reply_to_request([](SumRequest& m) {
                m = {m.session, {0, 3, 8}, {15, 24}};
              }),
              FailsWith(Error::kInvalid, "3 survivors; 4 are needed"));
}

// What client 3 says to a message of the server that was changed on its way.
template <class Message>
Status reply_after(int stages, const std::function<void(Message&)>& edit) {
  auto room = room_after(stages, 5);
  return room.answer_to(3, edited<Message>(*room.server.message_for(3), edit)).status();
}

TEST(SumTrouble, KeyListsThatNoHonestServerMakesAreRefused) {
  using Edit = std::function<void(SumKeyList&)>;
  const auto reply = [](const Edit& edit) { return reply_after<SumKeyList>(1, edit); };
  EXPECT_THAT(reply([](auto&) {}), Succeeds());
  EXPECT_THAT(reply([](auto& m) { m.session = {}; }), FailsWith(Error::kInvalid, "another secure"));
  EXPECT_THAT(reply([](auto& m) { m.keys[4].peer = 99; }), FailsWith(Error::kInvalid, "client 99"));
  EXPECT_THAT(reply([](auto& m) { m.keys[1].masking = m.keys[0].masking; }),
              FailsWith(Error::kInvalid, "its own keys back"));
  EXPECT_THAT(reply([](auto& m) { m.keys.erase(m.keys.begin() + 1); }),
              FailsWith(Error::kInvalid, "its own keys back"));
  EXPECT_THAT(reply([](auto& m) { m.keys.resize(3); }),
              FailsWith(Error::kInvalid, "3 clients with keys; 4 are needed"));
  EXPECT_THAT(reply([](auto& m) { m.keys[0].sealing = {}; }),
              FailsWith(Error::kInvalid, "client 0: a public key is of small order"));
}

TEST(SumTrouble, DeliveriesThatNoHonestServerMakesAreRefused) {
  using Edit = std::function<void(SumDelivery&)>;
  const auto reply = [](const Edit& edit) { return reply_after<SumDelivery>(2, edit); };
  EXPECT_THAT(reply([](auto&) {}), Succeeds());
  EXPECT_THAT(reply([](auto& m) { m.session = {}; }), FailsWith(Error::kInvalid, "another secure"));
  EXPECT_THAT(reply([](auto& m) { m.packets[4].peer = 99; }),
              FailsWith(Error::kInvalid, "shares of client 99"));
  EXPECT_THAT(reply([](auto& m) { m.packets.erase(m.packets.begin() + 1); }),
              FailsWith(Error::kInvalid, "its own share"));
  EXPECT_THAT(reply([](auto& m) { m.packets.resize(3); }),
              FailsWith(Error::kInvalid, "3 clients with shares; 4 are needed"));
}

TEST(SumTrouble, StepsOutOfTurnEndAClientsPart) {
  auto room = room_after(1);
  const auto list = *room.server.message_for(3);
  EXPECT_THAT(room.client(3).unmask(list), FailsWith(Error::kInvalid, "unmask out of turn"));
  EXPECT_THAT(room.client(3).share(list),
              FailsWith(Error::kInvalid, "it is over (the server asks to unmask out of turn)"));
  EXPECT_THAT(room.client(0).advertise(), FailsWith(Error::kInvalid, "advertise out of turn"));
  EXPECT_THAT(room.client(8).share(testing::to_bytes("?")),
              FailsWith(Error::kInvalid, "key list: is no message"));
  auto other = room_after(2);
  other.vectors[15].pop_back();
  EXPECT_THAT(other.answer(15), FailsWith(Error::kInvalid, "a vector of 2 words"));
}

}  // namespace
}  // namespace tessera

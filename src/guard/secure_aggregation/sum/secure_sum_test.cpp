// The four promises: the sum is right whoever is lost, a vector alone is noise, too few learn
// nothing, and what goes wrong ends with a reason.
#include "guard/secure_aggregation/sum/secure_sum.hpp"

#include <numeric>

#include "guard/secure_aggregation/sum/fixed_point.hpp"
#include "guard/secure_aggregation/sum/sum_testing.hpp"

namespace tessera {
namespace {

using testing::some_ids;
using testing::SumRoom;

// Plays a whole sum in which, of a random order of clients, lost[s] are lost at stage s.
void expect_right_sum(size_t count, const std::array<size_t, 4>& lost, uint64_t seed) {
  SumRoom room(some_ids(count), 5, seed);
  auto order = some_ids(count);
  Rng(seed).shuffle(std::span(order));
  std::set<int64_t> gone;
  std::vector<int64_t> counted = order;
  for (size_t stage = 0; stage < 4; ++stage) {
    for (size_t i = 0; i < lost[stage]; ++i) gone.insert(order[gone.size()]);
    if (stage < 3) counted.assign(order.begin() + static_cast<long>(gone.size()), order.end());
    room.play(gone);
  }
  std::sort(counted.begin(), counted.end());
  SCOPED_TRACE(
      fmt::format("{} clients, lost {} {} {} {}", count, lost[0], lost[1], lost[2], lost[3]));
  room.expect_sum_of(counted);
}

TEST(SecureSum, IsThePlainSumWhoeverIsLost) {
  uint64_t seed = 0;
  for (size_t count = 3; count <= 8; ++count) {
    const size_t most = count - sum_threshold(count);
    for (size_t a = 0; a <= most; ++a)
      for (size_t b = 0; a + b <= most; ++b)
        for (size_t c = 0; a + b + c <= most; ++c)
          for (size_t d = 0; a + b + c + d <= most; ++d)
            expect_right_sum(count, {a, b, c, d}, ++seed);
  }
}

TEST(SecureSum, IsThePlainSumAmongNeighbours) {
  // More than 100 clients: each has 42 neighbours. A fifth is lost on the way.
  expect_right_sum(101, {5, 5, 5, 5}, 3);
}

TEST(SecureSum, CarriesAWeightedMean) {
  const auto ids = some_ids(4);
  const std::vector<double> weights = {10, 20, 30, 40};
  const auto code = *FixedPoint::create({.max_weight = 40, .clients = 4});
  SumRoom room(ids, 3, 1);
  double expected = 0;
  for (size_t i = 0; i < 4; ++i) {
    const float value = 0.1f * static_cast<float>(i) - 0.2f;
    room.vectors[ids[i]] = *code.encode(std::vector<float>{value, 1.0f}, weights[i]);
    expected += weights[i] / 100 * static_cast<double>(value);
  }
  for (int stage = 0; stage < 4; ++stage) room.play();
  const auto mean = *code.decode(room.server.outcome().words);
  EXPECT_EQ(mean.weight, 100.0);
  EXPECT_NEAR(mean.values[0], expected, 4 * 0x1p-25 * 40 / 100);
  EXPECT_EQ(mean.values[1], 1.0);
}

TEST(SecureSum, SameSeedSameBytes) {
  SumRoom one(some_ids(5), 7, 1), two(some_ids(5), 7, 1), other(some_ids(5), 7, 2);
  for (int stage = 0; stage < 4; ++stage) one.play(), two.play(), other.play();
  EXPECT_EQ(one.traffic, two.traffic);
  EXPECT_NE(one.traffic, other.traffic);
}

TEST(SecureSum, AnyOrderOfArrivalGivesTheSame) {
  SumRoom room(some_ids(5), 7, 1), turned(some_ids(5), 7, 1);
  for (int stage = 0; stage < 4; ++stage) {
    room.play();
    auto asked = turned.server.asked();
    std::reverse(asked.begin(), asked.end());
    for (const auto id : asked)
      ASSERT_THAT(turned.server.receive(id, *turned.answer(id)), testing::Succeeds());
    turned.server.advance();
  }
  EXPECT_EQ(room.server.outcome().words, turned.server.outcome().words);
}

Bytes bytes_of_words(const std::vector<uint64_t>& words) {
  Bytes out;
  for (const auto word : words) append_little_endian(out, word);
  return out;
}

void expect_noise(const std::vector<uint64_t>& words) {
  const double statistic = testing::chi_square(bytes_of_words(words));
  EXPECT_GT(statistic, testing::kChiSquareLow);
  EXPECT_LT(statistic, testing::kChiSquareHigh);
}

TEST(SecureSum, AVectorAloneIsNoise) {
  const size_t words = 16384;
  SumRoom room(some_ids(3), words, 11);
  for (auto& [id, vector] : room.vectors) vector.assign(words, 42);
  EXPECT_GT(testing::chi_square(bytes_of_words(room.vectors[0])), 1e6);  // the test can tell
  room.play();
  room.play();
  const auto bytes = *room.answer(3);
  const auto masked = decode_sum_message_as<SumMasked>(bytes, "vector")->words;
  expect_noise(masked);
  // So it is without its own mask, for a server that has this client's seed: the pairs' masks are
  // on it. And without the pairs', for one that took it for lost when it came late.
  SeededEntropy entropy(room.entropy_seed(3));
  entropy.secret();
  const auto masking = entropy.secret(), seed = entropy.secret();
  const auto& plan = room.client(3).plan();
  auto without_own = masked, without_pairs = masked;
  apply_mask(without_own, seed, plan.round, MaskSign::kSubtract);
  expect_noise(without_own);
  for (const int64_t peer : {0, 8}) {
    SeededEntropy theirs(room.entropy_seed(peer));
    theirs.secret();
    const auto pair = *pair_seed(masking, public_half(theirs.secret()), plan.session);
    apply_mask(without_pairs, pair, plan.round, pair_sign(peer, 3));
    apply_mask(without_own, pair, plan.round, pair_sign(peer, 3));
  }
  expect_noise(without_pairs);
  EXPECT_EQ(without_own, std::vector<uint64_t>(words, 42));  // and those were all the masks
}

TEST(SecureSum, OneShareTooFewIsNoSum) {
  // Of 7 clients 5 are needed; the shares of 4 come back.
  SumRoom room(some_ids(7), 3);
  for (int stage = 0; stage < 3; ++stage) room.play();
  room.play({0, 3, 8});
  room.expect_abort("4 of 7 clients revealed shares; a secure sum needs 5");
}

TEST(SecureSum, TooFewAtAnyStageEndItWithAReason) {
  const char* reasons[] = {"4 of 7 clients sent keys", "4 of 7 clients sent shares",
                           "4 of 7 clients sent their vector", "4 of 7 clients revealed shares"};
  for (int last = 0; last < 4; ++last) {
    SumRoom room(some_ids(7), 3);
    for (int stage = 0; stage < last; ++stage) room.play();
    room.play({0, 3, 8});
    room.expect_abort(reasons[last]);
    // It stays over.
    EXPECT_TRUE(room.server.asked().empty());
    EXPECT_EQ(room.server.advance(), SumStage::kAborted);
    EXPECT_FALSE(room.server.message_for(0).ok());
  }
}

TEST(SecureSum, LossesAddUpOverTheStages) {
  SumRoom room(some_ids(7), 3);
  room.play({0});
  room.play({0, 3});
  room.play({0, 3, 8});
  room.expect_abort("4 of 7 clients sent their vector");
}

TEST(SecureSum, ALateVectorStaysHidden) {
  // Client 3's vector comes when it was counted as lost: refused, and the sum is of the others.
  SumRoom room(some_ids(5), 3);
  room.play();
  room.play();
  const auto late = *room.answer(3);
  room.play({3});
  EXPECT_THAT(room.server.receive(3, late), testing::FailsWith(Error::kInvalid, "too late"));
  EXPECT_FALSE(room.server.message_for(3).ok());
  room.play();
  room.expect_sum_of({0, 8, 15, 24});
}

}  // namespace
}  // namespace tessera

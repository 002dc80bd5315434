#include "guard/secure_aggregation/sum/fixed_point.hpp"

#include <cmath>
#include <limits>

#include "base/key.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

void add_words(std::vector<uint64_t>& sum, const std::vector<uint64_t>& more) {
  sum.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
}

struct Party {
  std::vector<float> values;
  double weight;
};

std::vector<Party> parties(int64_t count, size_t size, double least, double most) {
  Rng rng(static_cast<uint64_t>(count));
  std::vector<Party> out(static_cast<size_t>(count));
  for (auto& party : out) {
    party.weight = std::floor(rng.uniform(least, most + 1));
    for (size_t i = 0; i < size; ++i) party.values.push_back(static_cast<float>(rng.normal()));
  }
  return out;
}

TEST(FixedPoint, WorkedOutByHand) {
  const auto code =
      *FixedPoint::create({.clip = 2, .fraction_bits = 2, .max_weight = 10, .clients = 3});
  // Half the weight halves the values; quarters; -0.5 is 2^64 - 2.
  const auto words = *code.encode(std::vector<float>{1.0f, -1.0f, 0.3f, 9.0f, -9.0f}, 5);
  EXPECT_EQ(words, (std::vector<uint64_t>{2, ~uint64_t{1}, 1, 8, ~uint64_t{7}, 20}));
  EXPECT_EQ(code.clipped(std::vector<float>{1.0f, -1.0f, 4.0f, 9.0f, -9.0f}, 5), 2);
  // Values 1 with weight 5 and 3 with weight 10: (5 + 30) / 15, but 3 is cut to 2: (5 + 20) / 15.
  std::vector<uint64_t> sum;
  add_words(sum, *code.encode(std::vector<float>{1.0f}, 5));
  add_words(sum, *code.encode(std::vector<float>{3.0f}, 10));
  const auto mean = *code.decode(sum);
  EXPECT_EQ(mean.weight, 15.0);
  EXPECT_DOUBLE_EQ(mean.values[0], 25.0 / 15);
}

TEST(FixedPoint, TheMeanIsThePlainMeanWithinItsBound) {
  for (const auto& [count, least] :
       {std::pair<int64_t, double>{3, 600}, {50, 600}, {1000, 600}, {50, 60}}) {
    const double most = 600;
    const auto all = parties(count, 400, least, most);
    const auto code = *FixedPoint::create({.max_weight = most, .clients = count});
    std::vector<uint64_t> sum;
    std::vector<double> plain(400);
    double weight = 0;
    for (const auto& party : all) {
      ASSERT_EQ(code.clipped(party.values, party.weight), 0);
      add_words(sum, *code.encode(party.values, party.weight));
      weight += party.weight;
      for (size_t i = 0; i < plain.size(); ++i) plain[i] += party.weight * party.values[i];
    }
    const auto mean = *code.decode(sum);
    EXPECT_EQ(mean.weight, weight);  // whole weights are exact
    // N roundings of 2^-25 each, in the sum over n_max.
    const double bound = static_cast<double>(count) * 0x1p-25 * most / weight + 1e-14;
    double worst = 0;
    for (size_t i = 0; i < plain.size(); ++i)
      worst = std::max(worst, std::abs(mean.values[i] - plain[i] / weight));
    EXPECT_LE(worst, bound);
    EXPECT_LT(worst, 1e-5);
    EXPECT_GT(worst, 0.0);  // it does round
  }
}

TEST(FixedPoint, SumsWrapAroundOnTheirWay) {
  // Words in any order, with any masks between: only the total counts.
  const auto code = *FixedPoint::create({.clients = 4});
  std::vector<uint64_t> sum;
  for (const float value : {-16.0f, -16.0f, 16.0f, 8.0f})
    add_words(sum, *code.encode(std::vector<float>{value}, 1));
  EXPECT_EQ(code.decode(sum)->values[0], -2.0);
}

TEST(FixedPoint, NoWeightIsNoMean) {
  const auto code = *FixedPoint::create({.clients = 3});
  const auto mean = *code.decode(*code.encode(std::vector<float>{3.0f}, 0));
  EXPECT_EQ(mean.weight, 0.0);
  EXPECT_EQ(mean.values, std::vector<double>{0.0});
}

TEST(FixedPoint, RefusesWhatDoesNotFit) {
  EXPECT_THAT(FixedPoint::create({.clip = 0}), FailsWith(Error::kInvalid, "clip = 0"));
  EXPECT_THAT(FixedPoint::create({.max_weight = -1}), FailsWith(Error::kInvalid, "weight is -1"));
  EXPECT_THAT(FixedPoint::create({.clients = 0}), FailsWith(Error::kInvalid, "0 clients"));
  EXPECT_THAT(FixedPoint::create({.fraction_bits = 0}), FailsWith(Error::kInvalid, "0 fraction"));
  // 2^34 clients of 16 · 2^24 are 2^62.
  EXPECT_THAT(FixedPoint::create({.clients = (int64_t{1} << 34) - 1}), Succeeds());
  EXPECT_THAT(FixedPoint::create({.clients = int64_t{1} << 34}),
              FailsWith(Error::kInvalid, "does not fit 64 bits"));
  EXPECT_THAT(FixedPoint::create({.max_weight = 0x1p38, .clients = 1}),
              FailsWith(Error::kInvalid, "does not fit"));

  const auto code = *FixedPoint::create({.max_weight = 5, .clients = 3});
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(code.encode(std::vector<float>{1, nan}, 1),
              FailsWith(Error::kInvalid, "value 1 is nan"));
  EXPECT_THAT(code.encode(std::vector<float>{infinity}, 1), FailsWith(Error::kInvalid, "value 0"));
  EXPECT_THAT(code.encode({}, 6), FailsWith(Error::kInvalid, "weight of 6"));
  EXPECT_THAT(code.encode({}, -1), FailsWith(Error::kInvalid, "weight of -1"));
  EXPECT_THAT(code.encode({}, nan), FailsWith(Error::kInvalid, "weight of nan"));
  EXPECT_THAT(code.decode({}), FailsWith(Error::kInvalid, "without words"));
  EXPECT_THAT(code.decode(std::vector<uint64_t>{uint64_t{16} << 24}),
              FailsWith(Error::kInvalid, "add up to 16"));
  EXPECT_THAT(code.decode(std::vector<uint64_t>{~uint64_t{0}}),
              FailsWith(Error::kInvalid, "no encoding"));
}

}  // namespace
}  // namespace tessera

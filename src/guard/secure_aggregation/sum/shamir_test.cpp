#include "guard/secure_aggregation/sum/shamir.hpp"

#include <numeric>
#include <set>

#include "base/key.hpp"
#include "guard/secure_aggregation/sum/field.hpp"
#include "privacy/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

// The definition: a product of polynomials, then the remainder of a long division.
uint32_t product_by_division(uint32_t a, uint32_t b, uint32_t polynomial, int bits) {
  uint64_t product = 0;
  for (int i = 0; i < bits; ++i)
    if (b >> i & 1) product ^= uint64_t{a} << i;
  for (int i = 2 * bits; i >= bits; --i)
    if (product >> i & 1) product ^= uint64_t{polynomial} << (i - bits);
  return static_cast<uint32_t>(product);
}

// How often one has to multiply by 2 or 3 to be back at 1.
template <class Field>
uint32_t order_of(typename Field::Element generator) {
  uint32_t order = 1;
  for (auto power = generator; power != 1; power = field_product<Field>(power, generator)) ++order;
  return order;
}

TEST(Field, KnownProducts) {
  // FIPS 197, 4.2: {57}{83} = {c1}, {57}{13} = {fe}; the inverse of {53} is {ca}.
  EXPECT_EQ(field_product<Gf256>(0x57, 0x83), 0xc1);
  EXPECT_EQ(field_product<Gf256>(0x57, 0x13), 0xfe);
  EXPECT_EQ(field_inverse<Gf256>(0x53), 0xca);
  // By hand: x^15 times x is x^16 = x^12 + x^3 + x + 1.
  EXPECT_EQ(field_product<Gf65536>(0x8000, 2), 0x100B);
}

TEST(Field, ProductsAreTheDefinition) {
  for (uint32_t a = 0; a < 256; ++a)
    for (uint32_t b = 0; b < 256; ++b)
      ASSERT_EQ(field_product<Gf256>(static_cast<uint8_t>(a), static_cast<uint8_t>(b)),
                product_by_division(a, b, 0x11B, 8));
  Rng rng(1);
  for (int i = 0; i < 20000; ++i) {
    const auto a = static_cast<uint16_t>(rng.bits()), b = static_cast<uint16_t>(rng.bits());
    ASSERT_EQ(field_product<Gf65536>(a, b), product_by_division(a, b, 0x1100B, 16));
  }
}

TEST(Field, EveryElementButZeroHasItsInverse) {
  for (uint32_t a = 1; a < 256; ++a)
    ASSERT_EQ(field_product<Gf256>(static_cast<uint8_t>(a),
                                   field_inverse<Gf256>(static_cast<uint8_t>(a))),
              1);
  for (uint32_t a = 1; a < 65536; ++a)
    ASSERT_EQ(field_product<Gf65536>(static_cast<uint16_t>(a),
                                     field_inverse<Gf65536>(static_cast<uint16_t>(a))),
              1);
  EXPECT_EQ(field_inverse<Gf256>(0), 0);
  // The powers of one element are all of them: it is a field, not a ring.
  EXPECT_EQ(order_of<Gf256>(3), 255u);
  EXPECT_EQ(order_of<Gf65536>(2), 65535u);
}

Bytes sample_secret(uint64_t seed, size_t size = 32) {
  SeededEntropy entropy(seed);
  Bytes out(size);
  entropy.fill(out);
  return out;
}

TEST(Shamir, WorkedOutByHand) {
  // Secret 0x2a, coefficient 1: the shares are 0x2a ^ point.
  struct Ones final : Entropy {
    void fill(std::span<uint8_t> out) override { std::fill(out.begin(), out.end(), uint8_t{1}); }
  } ones;
  const Bytes secret = {0x2a};
  const auto shares = *split_secret(secret, {2, 3}, ones);
  ASSERT_EQ(shares.size(), 3u);
  EXPECT_EQ(shares[0].value, Bytes{0x2b});
  EXPECT_EQ(shares[1].value, Bytes{0x28});
  EXPECT_EQ(shares[2].value, Bytes{0x29});
}

TEST(Shamir, AnyThresholdOfSharesGiveTheSecretBack) {
  const auto secret = sample_secret(1);
  SeededEntropy entropy(2);
  const auto shares = *split_secret(secret, {4, 7}, entropy);
  for (uint32_t chosen = 0; chosen < 128; ++chosen) {  // every subset
    std::vector<SecretShare> some;
    for (uint32_t i = 0; i < 7; ++i)
      if (chosen >> i & 1) some.push_back(shares[i]);
    const auto joined = join_shares(some);
    EXPECT_EQ(joined.ok(), some.size() >= 4) << chosen;
    if (joined.ok()) {
      EXPECT_EQ(*joined, secret);
    } else if (!some.empty()) {
      EXPECT_THAT(joined, FailsWith(Error::kInvalid, "shares are there; 4 are needed"));
    }
  }
}

TEST(Shamir, EverySizeOfScheme) {
  const auto secret = sample_secret(3);
  Rng rng(4);
  for (const ShareScheme scheme :
       {ShareScheme{1, 1}, {1, 5}, {5, 5}, {170, 255}, {2, 256}, {100, 300}, {3, 65535}}) {
    SeededEntropy entropy(scheme.count);
    const auto shares = *split_secret(secret, scheme, entropy);
    std::vector<SecretShare> some;
    for (const auto i : rng.sample(scheme.count, scheme.threshold))
      some.push_back(shares[static_cast<size_t>(i)]);
    rng.shuffle(std::span(some));
    EXPECT_EQ(*join_shares(some), secret) << scheme.count;
  }
}

// A polynomial's coefficients as the test wants them.
struct Scripted final : Entropy {
  Bytes script;
  size_t at = 0;
  void fill(std::span<uint8_t> out) override {
    for (auto& byte : out) byte = at < 8 ? 0 : script[at - 8], ++at;  // the first 8: the label
  }
};

TEST(Shamir, OneLessThanTheThresholdFitsEverySecretEquallyOften) {
  // Exact, t = 3: over all 65536 polynomials of a secret, two shares take every pair of values
  // once. So whatever the secret, the two have the same distribution: they tell nothing of it.
  for (const uint8_t secret : {0x00, 0x01, 0xfe}) {
    std::set<std::pair<uint8_t, uint8_t>> seen;
    for (uint32_t coefficients = 0; coefficients < 65536; ++coefficients) {
      Scripted entropy;
      entropy.script = {static_cast<uint8_t>(coefficients),
                        static_cast<uint8_t>(coefficients >> 8)};
      const auto shares = *split_secret(Bytes{secret}, {3, 5}, entropy);
      seen.insert({shares[1].value[0], shares[4].value[0]});
    }
    EXPECT_EQ(seen.size(), 65536u);
  }
}

TEST(Shamir, GuessingTheMissingShareGivesAnything) {
  // t-1 true shares and a guessed one: bytes without pattern, whatever the secret.
  const Bytes secret(32, 0x41);
  SeededEntropy entropy(5);
  Bytes joined;
  for (int i = 0; i < 2048; ++i) {
    auto shares = *split_secret(secret, {3, 5}, entropy);
    shares.resize(3);
    entropy.fill(shares[2].value);
    const auto guess = *join_shares(shares);
    joined.insert(joined.end(), guess.begin(), guess.end());
  }
  EXPECT_GT(testing::chi_square(joined), testing::kChiSquareLow);
  EXPECT_LT(testing::chi_square(joined), testing::kChiSquareHigh);
}

TEST(Shamir, RefusesDuplicatesAndForeignShares) {
  SeededEntropy entropy(6);
  const auto one = *split_secret(sample_secret(7), {3, 5}, entropy);
  const auto two = *split_secret(sample_secret(8), {3, 5}, entropy);
  EXPECT_THAT(join_shares({}), FailsWith(Error::kInvalid, "no shares"));
  EXPECT_THAT(join_shares(std::vector{one[0], one[1], one[1]}),
              FailsWith(Error::kInvalid, "share 2 was given twice"));
  EXPECT_THAT(join_shares(std::vector{one[0], one[1], two[2]}),
              FailsWith(Error::kInvalid, "share 3 is of another secret"));
  auto damaged = one;
  damaged[4].value[31] ^= 1;
  EXPECT_THAT(join_shares(damaged), FailsWith(Error::kInvalid, "share 5 does not fit"));
  damaged = one;
  damaged[1].value.pop_back();
  EXPECT_THAT(join_shares(damaged), FailsWith(Error::kInvalid, "31 bytes"));
  damaged = one;
  damaged[1].point = 6;
  EXPECT_THAT(join_shares(damaged), FailsWith(Error::kInvalid, "number 6 of 5"));
  damaged[1].point = 0;
  EXPECT_THAT(join_shares(damaged), FailsWith(Error::kInvalid, "number 0 of 5"));
  damaged = one;
  for (auto& share : damaged) share.scheme = {6, 5};
  EXPECT_THAT(join_shares(damaged), FailsWith(Error::kInvalid, "cannot be cut"));
}

TEST(Shamir, RefusesSchemesThatCannotBe) {
  SeededEntropy entropy(9);
  for (const ShareScheme scheme : {ShareScheme{0, 5}, {6, 5}, {1, 0}, {1, 65536}})
    EXPECT_THAT(split_secret(Bytes(2), scheme, entropy),
                FailsWith(Error::kInvalid, "cannot be cut"));
  EXPECT_THAT(split_secret(Bytes(3), {2, 256}, entropy), FailsWith(Error::kInvalid, "even"));
  EXPECT_THAT(split_secret(Bytes(3), {2, 255}, entropy), Succeeds());
}

}  // namespace
}  // namespace tessera

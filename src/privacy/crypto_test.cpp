#include "privacy/crypto.hpp"

#include "privacy/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::from_hex;
using testing::Succeeds;

Secret secret_of(std::string_view hex) { return Secret(from_hex(hex)); }

PublicKey public_of(std::string_view hex) {
  PublicKey out;
  const auto bytes = from_hex(hex);
  std::copy_n(bytes.begin(), out.size(), out.begin());
  return out;
}

Nonce nonce_of(std::string_view hex) {
  Nonce out;
  const auto bytes = from_hex(hex);
  std::copy_n(bytes.begin(), out.size(), out.begin());
  return out;
}

constexpr std::string_view kSunscreen =
    "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
    "sunscreen would be it.";

TEST(X25519, KnownAgreements) {
  // RFC 7748, 5.2, first vector.
  const auto scalar = "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4";
  const auto point = "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c";
  EXPECT_EQ(*agree(secret_of(scalar), public_of(point)),
            secret_of("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"));
  // 6.1: both sides of an agreement.
  const auto alice = secret_of("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
  const auto bob = secret_of("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
  EXPECT_EQ(public_half(alice),
            public_of("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"));
  EXPECT_EQ(public_half(bob),
            public_of("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
  const auto both = secret_of("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
  EXPECT_EQ(*agree(alice, public_half(bob)), both);
  EXPECT_EQ(*agree(bob, public_half(alice)), both);
}

TEST(X25519, AThousandTimes) {
  // RFC 7748, 5.2: k and u are fed back.
  Secret k, u;
  k.bytes()[0] = u.bytes()[0] = 9;
  for (int i = 0; i < 1000; ++i) {
    PublicKey point;
    std::copy_n(u.bytes().begin(), point.size(), point.begin());
    u = k;
    k = *agree(k, point);
  }
  EXPECT_EQ(k, secret_of("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"));
}

TEST(X25519, RefusesPointsThatGiveEverybodyTheSame) {
  SeededEntropy entropy(1);
  const auto mine = make_key_pair(entropy);
  PublicKey one{};
  EXPECT_THAT(agree(mine.secret, one), FailsWith(Error::kInvalid, "small order"));
  one[0] = 1;
  EXPECT_THAT(agree(mine.secret, one), FailsWith(Error::kInvalid, "small order"));
}

TEST(Hkdf, KnownKeys) {
  // RFC 5869, A.1 and A.3.
  const Bytes secret(22, 0x0b);
  EXPECT_EQ(
      hkdf(secret, from_hex("000102030405060708090a0b0c"), from_hex("f0f1f2f3f4f5f6f7f8f9"), 42),
      from_hex(
          "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"));
  EXPECT_EQ(
      hkdf(secret, {}, {}, 42),
      from_hex(
          "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"));
}

TEST(Seal, KnownText) {
  // RFC 8439, 2.8.2.
  const auto key = secret_of("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f");
  const auto nonce = nonce_of("070000004041424344454647");
  const auto context = from_hex("50515253c0c1c2c3c4c5c6c7");
  const auto bytes = sealed(key, nonce, context, bytes_of(kSunscreen));
  EXPECT_EQ(bytes,
            from_hex("d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
                     "3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"
                     "92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
                     "3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691"));
  EXPECT_EQ(text_of(*unsealed(key, nonce, context, bytes)), kSunscreen);
}

TEST(Seal, AnyChangeIsSeen) {
  SeededEntropy entropy(2);
  const auto key = entropy.secret(), other = entropy.secret();
  const auto bytes = sealed(key, {}, bytes_of("to 3"), bytes_of("share"));
  EXPECT_THAT(unsealed(key, {}, bytes_of("to 3"), bytes), Succeeds());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto changed = bytes;
    changed[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_THAT(unsealed(key, {}, bytes_of("to 3"), changed),
                FailsWith(Error::kInvalid, "changed"));
  }
  EXPECT_THAT(unsealed(key, {}, bytes_of("to 4"), bytes), FailsWith(Error::kInvalid, "another"));
  EXPECT_THAT(unsealed(key, {1}, bytes_of("to 3"), bytes), FailsWith(Error::kInvalid, "another"));
  EXPECT_THAT(unsealed(other, {}, bytes_of("to 3"), bytes), FailsWith(Error::kInvalid, "another"));
  EXPECT_THAT(unsealed(key, {}, {}, Bytes(15)), FailsWith(Error::kInvalid, "15 bytes"));
  EXPECT_TRUE(unsealed(key, {}, {}, sealed(key, {}, {}, {}))->empty());
}

TEST(ChaCha20, KnownStream) {
  // RFC 8439, 2.4.2: the stream is the cipher text less the text.
  const auto key = secret_of("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
  auto expected = from_hex(
      "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b"
      "f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8"
      "07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736"
      "5af90bbf74a35be6b40b8eedf2785e42874d");
  for (size_t i = 0; i < expected.size(); ++i) expected[i] ^= static_cast<uint8_t>(kSunscreen[i]);
  Bytes stream(expected.size(), 0xff);
  chacha20(key, nonce_of("000000000000004a00000000"), 1, stream);
  EXPECT_EQ(stream, expected);
}

TEST(Entropy, SameSeedSameBytesHoweverTheyAreCut) {
  Bytes whole(1000), parts(1000);
  SeededEntropy one(7), two(7), three(8);
  one.fill(whole);
  for (size_t at = 0, step = 1; at < parts.size(); at += step, step = step * 2 % 97 + 1)
    two.fill(std::span(parts).subspan(at, std::min(step, parts.size() - at)));
  EXPECT_EQ(parts, whole);
  three.fill(parts);
  EXPECT_NE(parts, whole);
}

TEST(Entropy, TheSystemsIsNeverTheSame) {
  SystemEntropy entropy;
  EXPECT_FALSE(entropy.secret() == entropy.secret());
  Bytes many(256 * 1024);
  entropy.fill(many);
  EXPECT_LT(testing::chi_square(many), 600.0);  // not a test of OpenSSL: of an unfilled buffer
}

}  // namespace
}  // namespace tessera

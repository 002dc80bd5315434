#include "guard/secure_aggregation/sum/masks.hpp"

#include "privacy/testing.hpp"

namespace tessera {
namespace {

std::vector<uint64_t> mask_of(const Secret& seed, uint64_t round, size_t size) {
  std::vector<uint64_t> out(size);
  apply_mask(out, seed, round, MaskSign::kAdd);
  return out;
}

TEST(Masks, AreTheStreamOfTheSeedAndTheRound) {
  SeededEntropy entropy(1);
  const auto seed = entropy.secret();
  Bytes stream(8 * 5000);
  // As documented: the round's eight bytes are the end of the nonce.
  chacha20(seed, {0, 0, 0, 0, 0x34, 0x12}, 0, stream);
  const auto mask = mask_of(seed, 0x1234, 5000);
  for (size_t i = 0; i < mask.size(); ++i)
    ASSERT_EQ(mask[i], little_endian<uint64_t>(ByteSpan(stream).subspan(8 * i, 8)));
  EXPECT_NE(mask_of(seed, 0x1235, 5000), mask);
  // A shorter vector has the beginning of the same mask.
  EXPECT_EQ(mask_of(seed, 0x1234, 3), std::vector(mask.begin(), mask.begin() + 3));
}

TEST(Masks, AddAndSubtractUndoEachOther) {
  SeededEntropy entropy(2);
  const auto seed = entropy.secret();
  std::vector<uint64_t> words = {0, 1, ~uint64_t{0}, uint64_t{1} << 63};
  const auto before = words;
  apply_mask(words, seed, 9, MaskSign::kSubtract);
  EXPECT_NE(words, before);
  apply_mask(words, seed, 9, MaskSign::kAdd);
  EXPECT_EQ(words, before);
}

TEST(Masks, OfAPairCancel) {
  SeededEntropy entropy(3);
  const auto a = make_key_pair(entropy), b = make_key_pair(entropy);
  const auto session = bytes_of("session");
  const auto at_a = *pair_seed(a.secret, b.open, session);
  const auto at_b = *pair_seed(b.secret, a.open, session);
  EXPECT_EQ(at_a, at_b);
  EXPECT_FALSE(at_a == *pair_seed(a.secret, b.open, bytes_of("another")));
  std::vector<uint64_t> sum(3000, 42);
  apply_mask(sum, at_a, 1, pair_sign(4, 7));
  apply_mask(sum, at_b, 1, pair_sign(7, 4));
  EXPECT_EQ(sum, std::vector<uint64_t>(3000, 42));
}

}  // namespace
}  // namespace tessera

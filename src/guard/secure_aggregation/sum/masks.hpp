// Masks over vectors of 64-bit words, modulo 2^64: what makes an upload look like noise, and what
// vanishes in the sum.
//
// A mask is the ChaCha20 stream of a seed, with the round as its nonce, read as little-endian
// words. One core makes about 1 GB of it in a second (docs/decisions/020-secure-sum.md).
#pragma once

#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "privacy/crypto.hpp"

namespace tessera {

/// The longest vector: 16 GB, well within the 2^32 blocks of 8 words that ChaCha20 counts.
constexpr uint64_t kMostMaskedWords = uint64_t{1} << 31;

/// kAdd and kSubtract of the same seed and round undo each other.
enum class MaskSign { kAdd, kSubtract };

/// words ± mask, in place, modulo 2^64. At most kMostMaskedWords.
void apply_mask(std::span<uint64_t> words, const Secret& seed, uint64_t round, MaskSign sign);

/// The seed of the mask that two clients share: both compute the same from their own secret half
/// and the other's public half. `context` binds it to one session. kInvalid: agree().
Result<Secret> pair_seed(const Secret& mine, const PublicKey& theirs, ByteSpan context);

/// Of a pair, the one with the smaller id adds and the other subtracts, so that the two cancel.
inline MaskSign pair_sign(int64_t me, int64_t peer) {
  return me < peer ? MaskSign::kAdd : MaskSign::kSubtract;
}

}  // namespace tessera

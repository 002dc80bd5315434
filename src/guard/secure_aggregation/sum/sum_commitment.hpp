// How a client of a secure sum binds itself to what it deals out, as both sides compute it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "guard/secure_aggregation/sum/sum_messages.hpp"

namespace tessera {

/// Which of a client's two secrets a share is of: the seed of its own mask, or the masking key.
enum class SumSecret : uint8_t { kSeed = 1, kKey = 2 };

/// To the share of an owner's secret that a holder holds.
Commitment share_commitment(const SessionId& session, SumSecret kind, int64_t owner, int64_t holder,
                            ByteSpan share);
/// To the whole seed.
Commitment seed_commitment(const SessionId& session, int64_t owner, const Secret& seed);

/// What a derived key or commitment is for, as HKDF's info: words, then numbers of 8 bytes.
Bytes sum_purpose(std::string_view words, std::initializer_list<int64_t> numbers);

}  // namespace tessera

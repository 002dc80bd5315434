// A secret in n shares, of which any t give it back and t-1 tell nothing (Shamir 1979).
//
// Bytewise over GF(256) for up to 255 shares, two bytes at a time over GF(2^16) for more: each
// element is the constant term of a random polynomial of degree t-1, a share is its value at a
// point 1 to n. That t-1 shares tell nothing is exact: for every possible secret there is one
// polynomial that fits them. Whether a share is true cannot be seen from it; see join_shares().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "privacy/entropy.hpp"

namespace tessera {

constexpr uint32_t kMostShares = 65535;

/// How a secret was cut; the same for all its shares.
struct ShareScheme {
  uint32_t threshold = 0;  // 1 to count
  uint32_t count = 0;      // 1 to kMostShares
  bool operator==(const ShareScheme&) const = default;
};

/// One of them.
struct SecretShare {
  uint64_t dealing =
      0;  // a random number for each cut: shares of two secrets do not mix by mistake
  ShareScheme scheme;
  uint32_t point = 0;  // 1 to scheme.count
  Bytes value;         // as long as the secret
};

/// Shares for the points 1 to n, in order. kInvalid: no such scheme, or an odd number of bytes for
/// more than 255 shares.
Result<std::vector<SecretShare>> split_secret(ByteSpan secret, ShareScheme scheme,
                                              Entropy& entropy);

/// The secret. More than t shares may be given: then all of them have to fit. kInvalid: fewer than
/// t, the same point twice, shares of different cuts or lengths, points or schemes that cannot be,
/// or a share that does not fit the others (that one of exactly t is false cannot be seen).
Result<Bytes> join_shares(std::span<const SecretShare> shares);

}  // namespace tessera

// The four primitives of secure aggregation, by OpenSSL's EVP: X25519 (RFC 7748), HKDF with SHA-256
// (RFC 5869), ChaCha20-Poly1305 and the ChaCha20 stream (RFC 8439).
//
// Functions without a Result throw std::runtime_error if OpenSSL refuses what we made ourselves (no
// memory, an algorithm that this installation forbids). Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.hpp"
#include "io/bytes.hpp"
#include "privacy/entropy.hpp"

namespace tessera {

using PublicKey = std::array<uint8_t, 32>;
using Nonce = std::array<uint8_t, 12>;

/// Both halves of an X25519 key.
struct KeyPair {
  Secret secret;
  PublicKey open{};
};

KeyPair make_key_pair(Entropy& entropy);
/// The public half that belongs to a secret one.
PublicKey public_half(const Secret& secret);
/// What both sides can compute and nobody else: feed it to hkdf(), it is no key yet. kInvalid for a
/// public key of small order, which would give everybody the same.
Result<Secret> agree(const Secret& mine, const PublicKey& theirs);

/// 1 to 8160 bytes. `salt` may be empty; `info` says what the key is for.
Bytes hkdf(ByteSpan secret, ByteSpan salt, ByteSpan info, size_t size);
/// The same for 32 bytes.
Secret derive_secret(const Secret& secret, ByteSpan salt, ByteSpan info);

/// What sealed() adds to a text: the authentication tag.
constexpr size_t kTagBytes = 16;
/// Encrypted and authenticated, `context` authenticated only. A pair of key and nonce seals once.
Bytes sealed(const Secret& key, const Nonce& nonce, ByteSpan context, ByteSpan plain);
/// The text. kInvalid: too short, or not sealed with this key, nonce and context.
Result<Bytes> unsealed(const Secret& key, const Nonce& nonce, ByteSpan context, ByteSpan bytes);

/// The ChaCha20 key stream from a block (64 bytes each) on: fills `out`, whatever was in it.
void chacha20(const Secret& key, const Nonce& nonce, uint32_t block, std::span<uint8_t> out);

}  // namespace tessera

// Where keys, seeds and polynomials of the privacy protocols come from, and how secrets are held.
//
// Two sources, because two things are wanted that exclude each other:
// * SystemEntropy, for clients: the operating system's generator through OpenSSL. Nobody can repeat
//   it, and that is the point: who could, could take the masks off. Simulations use it, too, since
//   masks cancel exactly, whatever they are.
// * SeededEntropy, in tests and for the names of sessions: a function of a seed, so that the same
//   seed gives the same bits. It hides nothing from anybody who knows the seed.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "io/bytes.hpp"

namespace tessera {

/// A key or seed of 32 bytes that is overwritten when it goes. Public keys are no secrets:
/// PublicKey.
class Secret {
 public:
  static constexpr size_t kSize = 32;

  Secret() = default;
  /// Copies the first 32 bytes; the span must hold them.
  explicit Secret(ByteSpan bytes);
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();

  ByteSpan bytes() const { return bytes_; }
  std::span<uint8_t> bytes() { return bytes_; }
  /// In a time that does not depend on where they differ.
  bool operator==(const Secret& other) const;

 private:
  std::array<uint8_t, kSize> bytes_{};
};

/// Overwrites bytes in a way that the compiler does not leave out.
void wipe(std::span<uint8_t> bytes);

/// A source of random bytes. Not thread-safe: one for each client.
class Entropy {
 public:
  virtual ~Entropy() = default;
  /// Throws std::runtime_error if the source fails; there is nothing to go on with then.
  virtual void fill(std::span<uint8_t> out) = 0;
  Secret secret();
};

/// RAND_priv_bytes. For all that has to stay secret.
class SystemEntropy final : public Entropy {
 public:
  void fill(std::span<uint8_t> out) override;
};

/// The ChaCha20 stream of a key that is derived from the seed (base/key.hpp: derive). How the bytes
/// are cut into calls makes no difference. For names and tests.
class SeededEntropy final : public Entropy {
 public:
  explicit SeededEntropy(uint64_t seed);
  void fill(std::span<uint8_t> out) override;

 private:
  Secret key_;
  uint64_t block_ = 0;
  std::array<uint8_t, 64> ready_{};
  size_t used_ = 64;  // of ready_
};

}  // namespace tessera

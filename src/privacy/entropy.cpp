#include "privacy/entropy.hpp"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "privacy/crypto.hpp"

namespace tessera {

Secret::Secret(ByteSpan bytes) { std::copy_n(bytes.begin(), kSize, bytes_.begin()); }

Secret::~Secret() { wipe(bytes_); }

bool Secret::operator==(const Secret& other) const {
  return CRYPTO_memcmp(bytes_.data(), other.bytes_.data(), kSize) == 0;
}

void wipe(std::span<uint8_t> bytes) { OPENSSL_cleanse(bytes.data(), bytes.size()); }

Secret Entropy::secret() {
  Secret out;
  fill(out.bytes());
  return out;
}

void SystemEntropy::fill(std::span<uint8_t> out) {
  constexpr size_t kMost = std::numeric_limits<int>::max();
  for (; !out.empty(); out = out.subspan(std::min(kMost, out.size())))
    if (RAND_priv_bytes(out.data(), static_cast<int>(std::min(kMost, out.size()))) != 1)
      throw std::runtime_error("the system has no random bytes");
}

SeededEntropy::SeededEntropy(uint64_t seed) {
  Bytes text;
  append_little_endian(text, seed);
  const auto key = hkdf(text, {}, bytes_of("tessera simulated entropy"), Secret::kSize);
  key_ = Secret(key);
}

void SeededEntropy::fill(std::span<uint8_t> out) {
  for (auto& byte : out) {
    if (used_ == ready_.size()) {
      // The upper half of the count is in the nonce: the stream does not end after 256 GB.
      Nonce nonce{};
      for (size_t i = 0; i < 4; ++i) nonce[i] = static_cast<uint8_t>(block_ >> (32 + 8 * i));
      chacha20(key_, nonce, static_cast<uint32_t>(block_++), ready_);
      used_ = 0;
    }
    byte = ready_[used_++];
  }
}

}  // namespace tessera

#include "guard/secure_aggregation/sum/masks.hpp"

#include <algorithm>
#include <array>

namespace tessera {

void apply_mask(std::span<uint64_t> words, const Secret& seed, uint64_t round, MaskSign sign) {
  // Small enough for the fastest cache, large enough that setting up the cipher does not count.
  std::array<uint8_t, size_t{64} << 8> stream;
  Nonce nonce{};
  for (size_t i = 0; i < 8; ++i) nonce[4 + i] = static_cast<uint8_t>(round >> (8 * i));
  uint32_t block = 0;
  while (!words.empty()) {
    const size_t count = std::min(words.size(), stream.size() / 8);
    const auto bytes = std::span(stream).first(count * 8);
    chacha20(seed, nonce, block, bytes);
    for (size_t i = 0; i < count; ++i) {
      const auto mask = little_endian<uint64_t>(ByteSpan(bytes).subspan(8 * i, 8));
      words[i] = sign == MaskSign::kAdd ? words[i] + mask : words[i] - mask;
    }
    words = words.subspan(count);
    block += static_cast<uint32_t>(stream.size() / 64);
  }
  wipe(stream);
}

Result<Secret> pair_seed(const Secret& mine, const PublicKey& theirs, ByteSpan context) {
  TESSERA_ASSIGN(const auto shared, agree(mine, theirs));
  return derive_secret(shared, context, bytes_of("tessera secure sum: mask of a pair"));
}

}  // namespace tessera

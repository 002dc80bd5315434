// Arithmetic of GF(2^8) and GF(2^16), for secret sharing.
//
// Without tables, in a time that depends on no value: the elements are shares of keys, and which
// lines of a table were read can be seen from another process on the same machine. It is slower
// than tables (about 5 ns a product of GF(256)), and still nothing beside the key agreements of the
// protocol.
#pragma once

#include <cstdint>

namespace tessera {

/// Bytes modulo x^8 + x^4 + x^3 + x + 1, as in AES.
struct Gf256 {
  using Element = uint8_t;
  static constexpr int kBits = 8;
  static constexpr uint32_t kPolynomial = 0x11B;
};

/// Pairs of bytes modulo x^16 + x^12 + x^3 + x + 1.
struct Gf65536 {
  using Element = uint16_t;
  static constexpr int kBits = 16;
  static constexpr uint32_t kPolynomial = 0x1100B;
};

/// Sums and differences are both a ^ b.
template <class Field>
constexpr typename Field::Element field_product(typename Field::Element a,
                                                typename Field::Element b) {
  uint32_t product = 0, shifted = a;
  for (int bit = 0; bit < Field::kBits; ++bit) {
    product ^= shifted & (0u - ((uint32_t{b} >> bit) & 1u));
    shifted <<= 1;
    shifted ^= Field::kPolynomial & (0u - (shifted >> Field::kBits));
  }
  return static_cast<typename Field::Element>(product);
}

/// a^(size - 2), which is 1/a; of 0 it is 0.
template <class Field>
constexpr typename Field::Element field_inverse(typename Field::Element a) {
  typename Field::Element power = a, out = 1;
  for (int bit = 1; bit < Field::kBits; ++bit) {
    power = field_product<Field>(power, power);
    out = field_product<Field>(out, power);
  }
  return out;
}

}  // namespace tessera

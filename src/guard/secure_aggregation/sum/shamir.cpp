#include "guard/secure_aggregation/sum/shamir.hpp"

#include <algorithm>

#include "guard/secure_aggregation/sum/field.hpp"

namespace tessera {
namespace {

constexpr uint32_t kMostByteShares = 255;

template <class Field>
typename Field::Element element_at(ByteSpan bytes, size_t i) {
  return little_endian<typename Field::Element>(bytes.subspan(i * sizeof(typename Field::Element)));
}

template <class Field>
void put_element(std::span<uint8_t> bytes, size_t i, typename Field::Element value) {
  for (size_t k = 0; k < sizeof value; ++k)
    bytes[i * sizeof value + k] = static_cast<uint8_t>(value >> (8 * k));
}

Status check_scheme(ShareScheme scheme, size_t bytes) {
  if (scheme.count < 1 || scheme.count > kMostShares || scheme.threshold < 1 ||
      scheme.threshold > scheme.count)
    return fail(Error::kInvalid,
                "a secret cannot be cut into {} shares of which {} are needed (1 to {} shares, "
                "needed 1 to all)",
                scheme.count, scheme.threshold, kMostShares);
  if (scheme.count > kMostByteShares && bytes % 2 != 0)
    return fail(Error::kInvalid, "{} bytes cannot be cut into more than {} shares: make them even",
                bytes, kMostByteShares);
  return ok();
}

// The polynomials' coefficients, one row as long as the secret for each power; row 0 is the secret.
template <class Field>
void evaluate_rows(ByteSpan rows, size_t size, typename Field::Element point,
                   std::span<uint8_t> out) {
  for (size_t i = 0; i < size / sizeof point; ++i) {
    typename Field::Element value = 0;
    for (size_t row = rows.size() / size; row-- > 0;)
      value =
          field_product<Field>(value, point) ^ element_at<Field>(rows.subspan(row * size, size), i);
    put_element<Field>(out, i, value);
  }
}

// The value at `where` of the polynomial through the shares (Lagrange). Points are public, so the
// time may depend on them.
template <class Field>
Bytes interpolate(std::span<const SecretShare> shares, typename Field::Element where) {
  using Element = typename Field::Element;
  Bytes out(shares[0].value.size());
  for (const auto& share : shares) {
    Element above = 1, below = 1;
    for (const auto& other : shares) {
      if (other.point == share.point) continue;
      above = field_product<Field>(above, static_cast<Element>(where ^ other.point));
      below = field_product<Field>(below, static_cast<Element>(share.point ^ other.point));
    }
    const Element weight = field_product<Field>(above, field_inverse<Field>(below));
    for (size_t i = 0; i < out.size() / sizeof(Element); ++i)
      put_element<Field>(out, i,
                         element_at<Field>(out, i) ^
                             field_product<Field>(weight, element_at<Field>(share.value, i)));
  }
  return out;
}

template <class Field>
Result<Bytes> join_in(std::span<const SecretShare> shares) {
  const auto enough = shares.first(shares[0].scheme.threshold);
  for (const auto& more : shares.subspan(enough.size()))
    if (interpolate<Field>(enough, static_cast<typename Field::Element>(more.point)) != more.value)
      return fail(Error::kInvalid, "share {} does not fit the others: one of them is false",
                  more.point);
  return interpolate<Field>(enough, 0);
}

Status check_shares(std::span<const SecretShare> shares) {
  const auto& first = shares[0];
  TESSERA_RETURN_IF_ERROR(check_scheme(first.scheme, first.value.size()));
  std::vector<bool> seen(first.scheme.count + 1);
  for (const auto& share : shares) {
    if (share.dealing != first.dealing || share.scheme != first.scheme)
      return fail(Error::kInvalid, "share {} is of another secret", share.point);
    if (share.value.size() != first.value.size())
      return fail(Error::kInvalid, "share {} has {} bytes, another one {}", share.point,
                  share.value.size(), first.value.size());
    if (share.point < 1 || share.point > share.scheme.count)
      return fail(Error::kInvalid, "a share has the number {} of {}", share.point,
                  share.scheme.count);
    if (seen[share.point]) return fail(Error::kInvalid, "share {} was given twice", share.point);
    seen[share.point] = true;
  }
  if (shares.size() < first.scheme.threshold)
    return fail(Error::kInvalid, "{} shares are there; {} are needed", shares.size(),
                first.scheme.threshold);
  return ok();
}

}  // namespace

Result<std::vector<SecretShare>> split_secret(ByteSpan secret, ShareScheme scheme,
                                              Entropy& entropy) {
  TESSERA_RETURN_IF_ERROR(check_scheme(scheme, secret.size()));
  Bytes label(8);
  entropy.fill(label);
  Bytes rows(secret.begin(), secret.end());
  rows.resize(secret.size() * scheme.threshold);
  entropy.fill(std::span(rows).subspan(secret.size()));
  std::vector<SecretShare> out(scheme.count);
  for (uint32_t i = 0; i < scheme.count; ++i) {
    out[i] = {little_endian<uint64_t>(label), scheme, i + 1, Bytes(secret.size())};
    if (secret.empty()) continue;
    if (scheme.count <= kMostByteShares)
      evaluate_rows<Gf256>(rows, secret.size(), static_cast<uint8_t>(i + 1), out[i].value);
    else
      evaluate_rows<Gf65536>(rows, secret.size(), static_cast<uint16_t>(i + 1), out[i].value);
  }
  wipe(rows);
  return out;
}

Result<Bytes> join_shares(std::span<const SecretShare> shares) {
  if (shares.empty()) return fail(Error::kInvalid, "no shares are there");
  TESSERA_RETURN_IF_ERROR(check_shares(shares));
  return shares[0].scheme.count <= kMostByteShares ? join_in<Gf256>(shares)
                                                   : join_in<Gf65536>(shares);
}

}  // namespace tessera

#include "guard/secure_aggregation/sum/sum_commitment.hpp"

#include <algorithm>

namespace tessera {
namespace {

Commitment commitment_to(ByteSpan secret, const SessionId& session, const Bytes& purpose) {
  Commitment out;
  const auto bytes = hkdf(secret, session, purpose, out.size());
  std::copy_n(bytes.begin(), out.size(), out.begin());
  return out;
}

}  // namespace

Bytes sum_purpose(std::string_view words, std::initializer_list<int64_t> numbers) {
  Bytes out(words.begin(), words.end());
  for (const auto number : numbers) append_little_endian(out, number);
  return out;
}

Commitment share_commitment(const SessionId& session, SumSecret kind, int64_t owner, int64_t holder,
                            ByteSpan share) {
  return commitment_to(share, session,
                       sum_purpose("tessera secure sum: commitment to a share",
                                   {static_cast<int64_t>(kind), owner, holder}));
}

Commitment seed_commitment(const SessionId& session, int64_t owner, const Secret& seed) {
  return commitment_to(seed.bytes(), session,
                       sum_purpose("tessera secure sum: commitment to a seed", {owner}));
}

}  // namespace tessera

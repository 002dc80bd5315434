// Zip archives in memory, as NumPy writes them: stored or deflated members, zip64 tolerated.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

struct ZipMember {
  std::string name;
  Bytes data;  // unpacked
};

/// All members, in the order of the central directory. kInvalid for anything damaged (CRC-32 and
/// both headers are checked), encrypted, split, twice the same name, an unknown packing method,
/// more than max_members, or more than max_bytes in all once unpacked.
Result<std::vector<ZipMember>> read_zip(ByteSpan file, size_t max_bytes, const std::string& name,
                                        size_t max_members = std::numeric_limits<size_t>::max());

/// An archive of stored members with fixed dates: equal input gives equal bytes. kInvalid for a
/// name twice, or more than 65535 members or 4 GiB (this writer has no zip64).
Result<Bytes> write_zip(const std::vector<std::pair<std::string, ByteSpan>>& members);

}  // namespace tessera

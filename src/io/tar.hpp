// Tar archives in memory (ustar, with GNU and pax long names): their members, not copied.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

/// A regular file of the archive; data point into the archive's bytes.
struct TarMember {
  std::string name;
  ByteSpan data;
};

/// Regular files in archive order; directories and links are left out. Names are as stored: callers
/// look members up by name and must not use them as paths. kInvalid for a wrong checksum, a member
/// that runs past the end, or an archive without its end mark.
Result<std::vector<TarMember>> parse_tar(ByteSpan file, const std::string& name);

}  // namespace tessera

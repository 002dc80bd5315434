// What a download holds, however it is packed: gzip, xz, tar and zip, also inside each other.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/status.hpp"
#include "io/file.hpp"

namespace tessera {

/// What one input may cost, over all its levels: a small file may unpack to archives that unpack to
/// archives, and every level of them is held in memory.
struct ArchiveLimits {
  size_t max_bytes = kMaxFileBytes;  // unpacked or copied, of all levels together
  int max_depth = 2;                 // archives around a file; UCI packs zip into zip
};

/// Files by name, unpacked.
using ArchiveFiles = std::map<std::string, Bytes>;

/// The files that `wanted` says yes to: the file itself, or members of an archive. A name is the
/// last part of a path and lacks .gz and .xz; what stands before it in an archive is never used. Of
/// two files with one name the last counts. `name` is that of the whole file, also for error
/// messages. kInvalid: damaged, or beyond the limits.
Result<ArchiveFiles> find_in_archive(ByteSpan file, const std::string& name,
                                     const std::function<bool(const std::string&)>& wanted,
                                     const ArchiveLimits& limits = {});

}  // namespace tessera

// Files fetched over http, https or file, checked before they get their name.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/status.hpp"

namespace tessera {

struct DownloadOptions {
  std::string sha256;            // hex; empty = not checked
  std::string md5;               // hex; empty = not checked
  std::optional<uint64_t> size;  // bytes; more than this is never written
  std::chrono::seconds connect_timeout{15};
  std::chrono::seconds stall_timeout{30};  // less than one byte a second for this long = given up
  /// Called now and then with bytes so far and in all (0 = not known); false stops the download
  /// with kInterrupted. May be empty.
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

/// Fetches into target.part, checks, renames to target. With a checksum, a .part of an earlier try
/// is continued where the server can (without one nobody could tell whether both halves belong
/// together). After an interruption the .part stays for the next try; after a wrong size or
/// checksum it is removed. kNotFound: the server has no such file; kInvalid: wrong contents or URL;
/// kIo: network or disk; kBusy: another process is at it. The target's directory must exist; an old
/// target is replaced.
Status download(const std::string& url, const std::string& target,
                const DownloadOptions& options = {});

}  // namespace tessera

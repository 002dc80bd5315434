// Guards for tests.
#pragma once

#include <string>

#include "guard/options.hpp"

namespace tessera::testing {

/// Uploads in fewer bytes: "none", "fp16", "int8", "topk"; level 0 is no zstd.
inline GuardOptions smaller(const std::string& to, double share = 0.01, int64_t zstd = 0) {
  GuardOptions out;
  if (to != "none") out.compress = CompressGuard{.to = to, .share = share};
  if (zstd > 0) out.zstd = ZstdGuard{.level = zstd};
  return out;
}

}  // namespace tessera::testing

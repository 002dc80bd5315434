// Section [guard]: how uploads are made smaller before they travel. Off by default.
#pragma once

#include <cstdint>
#include <string>

#include "base/options.hpp"

namespace tessera {

struct GuardOptions {
  /// What becomes of the numbers of an upload (guard/guard.hpp says which of them).
  std::string compress = "none";
  /// Share of a tensor that top-k sends; above a half it would send more bytes than the tensor has.
  double topk = 0.01;
  /// Level, both ways; lossless.
  int64_t zstd = 0;
  static void options(auto& o, auto&& f) {
    f(one_of("compress", {"none", "fp16", "int8", "topk"},
             "uploads of a round: as they are, in 2 bytes a number, in 1, or only the largest "
             "changes, the rest later"),
      o.compress);
    auto share = above("topk", 0, "compress = \"topk\": share of the numbers that is sent");
    share.max = 0.5;
    f(share, o.topk);
    f(between("zstd", 0, 19, "level of lossless compression of a round's messages; 0: none"),
      o.zstd);
  }
  bool operator==(const GuardOptions&) const = default;
};

}  // namespace tessera

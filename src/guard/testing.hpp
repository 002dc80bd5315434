// Guards for tests.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "guard/guard.hpp"

namespace tessera::testing {

/// Uploads in fewer bytes: "none", "fp16", "int8", "topk"; level 0 is no zstd.
inline GuardOptions smaller(const std::string& to, double share = 0.01, int64_t zstd = 0) {
  GuardOptions out;
  if (to != "none") out.compress = CompressGuard{.to = to, .share = share};
  if (zstd > 0) out.zstd = ZstdGuard{.level = zstd};
  return out;
}

/// What FedAvg uploads: "value.w" that began as the download's "w", its buffers, and its weight.
inline std::shared_ptr<const MessageParts> fedavg_parts() {
  MessageParts out;
  out.add("value.w",
          {.meaning = Meaning::kTrained, .adds = Adds::kMean, .weight = "weight", .starts = {"w"}});
  out.add(
      "value.b",
      {.meaning = Meaning::kStatistic, .adds = Adds::kMean, .weight = "weight", .buffers = true});
  out.add("weight", {.meaning = Meaning::kCount, .adds = Adds::kWeight});
  return std::make_shared<const MessageParts>(std::move(out));
}
/// One trained tensor that may have begun as these of the download.
inline std::shared_ptr<const MessageParts> trained_part(const std::string& name,
                                                        std::vector<std::string> starts) {
  MessageParts out;
  out.add(name, {.meaning = Meaning::kTrained, .starts = std::move(starts)});
  return std::make_shared<const MessageParts>(std::move(out));
}

}  // namespace tessera::testing

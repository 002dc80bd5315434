#include "io/cifar.hpp"

namespace tessera {

Result<CifarRecords> parse_cifar(ByteSpan file, CifarLabels labels, int64_t classes,
                                 const std::string& name) {
  const size_t label_bytes = labels == CifarLabels::kOne ? 1 : 2;
  const size_t record = label_bytes + kCifarPixels;
  if (file.empty() || file.size() % record != 0)
    return fail(Error::kInvalid, "{}: {} bytes are not a whole number of records of {} bytes", name,
                file.size(), record);
  CifarRecords out;
  out.labels.reserve(file.size() / record);
  out.pixels.reserve(file.size() / record);
  for (size_t at = 0; at < file.size(); at += record) {
    const size_t label_at = at + label_bytes - 1;
    if (file[label_at] >= classes)
      return fail(Error::kInvalid, "{}: label {} at byte {} (record {}) is not one of 0 … {}", name,
                  file[label_at], label_at, at / record, classes - 1);
    out.labels.push_back(file[label_at]);
    if (labels == CifarLabels::kCoarseAndFine) out.coarse.push_back(file[at]);
    out.pixels.push_back(file.subspan(at + label_bytes, kCifarPixels));
  }
  return out;
}

}  // namespace tessera

#include "io/idx.hpp"

#include "io/bytes.hpp"

namespace tessera {
namespace {

constexpr uint32_t kImageMagic = 0x803, kLabelMagic = 0x801;  // unsigned bytes, 3 and 1 dimensions
constexpr int64_t kLongestSide = 4096;

// The numbers after the magic, once the magic is the right one.
Status check_header(ByteSpan file, uint32_t magic, size_t header, const std::string& name) {
  if (file.size() < header)
    return fail(Error::kInvalid, "{}: {} bytes are too few for the {}-byte header of an idx file",
                name, file.size(), header);
  if (const auto found = big_endian<uint32_t>(file); found != magic)
    return fail(Error::kInvalid, "{}: not an idx file of {}: begins with {:08x}, not {:08x}", name,
                magic == kImageMagic ? "images" : "labels", found, magic);
  return ok();
}

Status check_length(size_t body, uint64_t declared, const std::string& name) {
  if (body == declared) return ok();
  return fail(Error::kInvalid, "{}: has {} bytes of data where its header says {}; {}", name, body,
              declared, body < declared ? "it was cut off" : "something was added at the end");
}

}  // namespace

Result<IdxImages> parse_idx_images(ByteSpan file, const std::string& name) {
  constexpr size_t kHeader = 16;
  TESSERA_RETURN_IF_ERROR(check_header(file, kImageMagic, kHeader, name));
  IdxImages images;
  images.count = big_endian<uint32_t>(file.subspan(4));
  images.rows = big_endian<uint32_t>(file.subspan(8));
  images.columns = big_endian<uint32_t>(file.subspan(12));
  for (const int64_t side : {images.rows, images.columns})
    if (side < 1 || side > kLongestSide)
      return fail(Error::kInvalid, "{}: images of {}×{} pixels; sides must be 1 … {}", name,
                  images.rows, images.columns, kLongestSide);
  images.pixels = file.subspan(kHeader);
  const auto declared = static_cast<uint64_t>(images.count * images.rows * images.columns);
  TESSERA_RETURN_IF_ERROR(check_length(images.pixels.size(), declared, name));
  return images;
}

Result<ByteSpan> parse_idx_labels(ByteSpan file, int64_t classes, const std::string& name) {
  constexpr size_t kHeader = 8;
  TESSERA_RETURN_IF_ERROR(check_header(file, kLabelMagic, kHeader, name));
  const ByteSpan labels = file.subspan(kHeader);
  TESSERA_RETURN_IF_ERROR(check_length(labels.size(), big_endian<uint32_t>(file.subspan(4)), name));
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] >= classes)
      return fail(Error::kInvalid, "{}: label {} at byte {} is not one of 0 … {}", name, labels[i],
                  kHeader + i, classes - 1);
  return labels;
}

}  // namespace tessera

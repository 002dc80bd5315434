#include "io/zstd.hpp"

#include <zstd.h>

#include "base/text.hpp"

namespace tessera {

Result<Bytes> zstd_compress(ByteSpan bytes, int level) {
  if (level < kLowestZstd || level > kHighestZstd)
    return fail(Error::kInvalid, "zstd has levels {} to {}, not {}", kLowestZstd, kHighestZstd,
                level);
  Bytes out(ZSTD_compressBound(bytes.size()));
  const size_t size = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), level);
  if (ZSTD_isError(size)) return fail(Error::kIo, "zstd: {}", ZSTD_getErrorName(size));
  out.resize(size);
  return out;
}

Result<Bytes> zstd_decompress(ByteSpan frame, size_t most, const std::string& name) {
  const auto wrong = [&](const std::string& what) {
    return fail(Error::kInvalid, "{}: {}", name, what);
  };
  // Also tells it from a skippable frame, which libzstd would take for empty content.
  if (frame.size() < 4 || little_endian<uint32_t>(frame) != ZSTD_MAGICNUMBER)
    return wrong("not a zstd frame");
  const auto announced = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (announced == ZSTD_CONTENTSIZE_ERROR) return wrong("the zstd frame is damaged");
  if (announced == ZSTD_CONTENTSIZE_UNKNOWN)
    return wrong("the zstd frame does not say how large its content is");
  if (announced > most)
    return wrong(fmt::format("the zstd frame announces {}, at most {} are expected",
                             human_bytes(static_cast<double>(announced)),
                             human_bytes(static_cast<double>(most))));
  const size_t length = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(length)) return wrong("the zstd frame is damaged or cut off");
  if (length != frame.size()) return wrong("there are bytes behind the zstd frame");
  Bytes out(announced);
  const size_t size = ZSTD_decompress(out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(size) || size != announced) return wrong("the zstd frame is damaged");
  return out;
}

}  // namespace tessera

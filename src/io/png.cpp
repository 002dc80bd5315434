#include "io/png.hpp"

#include <zlib.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace tessera {
namespace {

void append_big_endian(Bytes& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(value >> shift));
}

// Length, type, data, and the CRC of type and data.
void append_chunk(Bytes& out, std::string_view type, ByteSpan data) {
  append_big_endian(out, static_cast<uint32_t>(data.size()));
  const size_t start = out.size();
  out.insert(out.end(), type.begin(), type.end());
  out.insert(out.end(), data.begin(), data.end());
  const auto crc = crc32(0, out.data() + start, static_cast<uInt>(out.size() - start));
  append_big_endian(out, static_cast<uint32_t>(crc));
}

Bytes deflated(ByteSpan raw) {
  uLongf size = compressBound(raw.size());
  Bytes out(size);
  if (compress2(out.data(), &size, raw.data(), raw.size(), Z_BEST_COMPRESSION) != Z_OK)
    throw std::runtime_error("zlib could not compress a picture");
  out.resize(size);
  return out;
}

}  // namespace

Bytes encode_png(const Picture& picture) {
  const size_t line = size_t{picture.width} * static_cast<size_t>(picture.channels);
  if (line == 0 || picture.pixels.size() != line * picture.height || picture.pixels.empty())
    throw std::invalid_argument("a picture's pixels do not fit its size");
  static constexpr uint8_t kColourType[] = {0, 4, 2, 6};
  Bytes header;
  append_big_endian(header, picture.width);
  append_big_endian(header, picture.height);
  header.insert(header.end(), {8, kColourType[picture.channels - 1], 0, 0, 0});
  Bytes raw;
  raw.reserve((line + 1) * picture.height);
  for (size_t y = 0; y < picture.height; ++y) {
    raw.push_back(0);  // no filter
    const auto* row = picture.pixels.data() + y * line;
    raw.insert(raw.end(), row, row + line);
  }
  Bytes out{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  append_chunk(out, "IHDR", header);
  append_chunk(out, "IDAT", deflated(raw));
  append_chunk(out, "IEND", {});
  return out;
}

std::string png_data_uri(const Picture& picture) {
  return "data:image/png;base64," + base64(encode_png(picture));
}

std::string base64(ByteSpan bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = uint32_t{bytes[i]} << 16;
    if (left > 1) group |= uint32_t{bytes[i + 1]} << 8;
    if (left > 2) group |= uint32_t{bytes[i + 2]};
    for (size_t digit = 0; digit < 4; ++digit)
      out += digit <= left ? kDigits[group >> (18 - 6 * digit) & 63] : '=';
  }
  return out;
}

}  // namespace tessera

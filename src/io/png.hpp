// Small pictures inside a page: PNG as a data URI.
#pragma once

#include <cstdint>
#include <string>

#include "io/bytes.hpp"

namespace tessera {

/// Eight bits a channel, rows from the top. Channels: 1 grey, 2 grey and opacity, 3 RGB, 4 RGB and
/// opacity.
struct Picture {
  uint32_t width = 0, height = 0;
  int channels = 1;
  Bytes pixels;  // height · width · channels
};

/// A PNG file. The picture must not be empty and its pixels must be as many as it says.
Bytes encode_png(const Picture& picture);
/// "data:image/png;base64,…", for an href.
std::string png_data_uri(const Picture& picture);

/// RFC 4648, with padding.
std::string base64(ByteSpan bytes);

}  // namespace tessera

// Streams of zlib and liblzma, undone: what read_unpacked and the zip reader stand on.
#pragma once

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

enum class InflateKind { kGzip, kRaw };

/// Appends what one deflate stream at the start of `packed` holds to `out`, and returns how many
/// bytes of `packed` it took. kInvalid if damaged, cut off, or if `out` would pass max_bytes.
Result<size_t> inflate_one(ByteSpan packed, InflateKind kind, size_t max_bytes,
                           const std::string& name, Bytes& out);

/// gzip or xz, by the first bytes.
bool is_packed(ByteSpan bytes);

}  // namespace tessera

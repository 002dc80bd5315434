// Zstandard frames: lossless, in one piece, and opened only up to a size that the caller permits.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

/// Levels that zstd_compress takes; 19 is slow and packs a little more.
constexpr int kLowestZstd = 1, kHighestZstd = 19;

/// One frame that announces the size of its content. A function of bytes, level and the version of
/// libzstd. kInvalid for another level; kIo if there is not enough memory.
Result<Bytes> zstd_compress(ByteSpan bytes, int level);

/// What one frame holds; `name` stands for it in messages. Nothing is allocated before the frame's
/// announced size is known to be at most `most`, and no more than that is written, whatever the
/// frame goes on to say. kInvalid: no frame, one that does not announce its size or announces more
/// than `most`, a damaged one, or bytes behind it.
Result<Bytes> zstd_decompress(ByteSpan frame, size_t most, const std::string& name);

}  // namespace tessera

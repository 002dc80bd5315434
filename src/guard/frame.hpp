// Named tensors as one zstd frame, and back: lossless compression of a message's tensors.
//
// What is framed is a dictionary with a single entry, "guard/zstd": the frame's bytes as uint8 [n].
// It travels and is counted like any other, so engines know nothing of it.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "tensor/fields.hpp"

namespace tessera {

/// What names of guards begin with, in messages and in states; fields of methods have no '/'.
constexpr const char* kGuardPrefix = "guard/";

/// The frame of the dictionary's safetensors bytes. Errors of io/zstd.hpp.
Result<TensorDict> in_frame(const TensorDict& tensors, int level);
/// Whether it is one; nothing of it is checked.
bool is_frame(const TensorDict& tensors);
/// What was framed. kInvalid: no such frame, or its content is larger than `most` bytes or no
/// safetensors. Costs `most` bytes of memory at most, whatever it claims to be.
Result<TensorDict> from_frame(const TensorDict& framed, int64_t most);
/// The same for who does not know better than by the frame's own size.
Result<TensorDict> from_frame(const TensorDict& framed);

/// No download is larger.
constexpr int64_t kMostDownload = int64_t{4} << 30;
/// What a frame of so many bytes may unpack to where nothing else is known. Numbers of models
/// become a little smaller; only equal ones become much smaller, and of these there are few.
int64_t most_content(int64_t frame_bytes);

/// Makes the frames of a round's downloads; not thread-safe. Often everybody gets the same: a
/// download of the same tensors as the one before is not compressed again.
class DownloadFrames {
 public:
  /// Level 0: downloads are left as they are.
  explicit DownloadFrames(int level) : level_(level) {}
  /// Throws std::runtime_error where there is no memory for it.
  TensorDict make(TensorDict down);

 private:
  int level_;
  TensorDict last_, frame_;
};

}  // namespace tessera

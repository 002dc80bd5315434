#include "guard/frame.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "io/tensor/tensor_codec.hpp"
#include "io/zstd.hpp"

namespace tessera {
namespace {

const std::string kFrameEntry = std::string(kGuardPrefix) + "zstd";

bool same_tensors(const TensorDict& a, const TensorDict& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.is_same(y.second);
  });
}

}  // namespace

Result<TensorDict> in_frame(const TensorDict& tensors, int level) {
  TESSERA_ASSIGN(const auto bytes, zstd_compress(encode(tensors), level));
  auto out = at::empty({std::ssize(bytes)}, at::kByte);
  std::copy(bytes.begin(), bytes.end(), out.data_ptr<uint8_t>());
  return TensorDict{{kFrameEntry, std::move(out)}};
}

bool is_frame(const TensorDict& tensors) { return tensors.contains(kFrameEntry); }

Result<TensorDict> from_frame(const TensorDict& framed, int64_t most) {
  if (framed.size() != 1 || !is_frame(framed))
    return fail(Error::kInvalid, "'{}' is not there, or not alone", kFrameEntry);
  const auto& entry = framed.begin()->second;
  if (entry.scalar_type() != at::kByte || entry.dim() != 1)
    return fail(Error::kInvalid, "'{}' is not a row of bytes", kFrameEntry);
  const auto frame = entry.contiguous();
  TESSERA_ASSIGN(auto bytes, zstd_decompress({frame.data_ptr<uint8_t>(), frame.nbytes()},
                                             static_cast<size_t>(most), kFrameEntry));
  TESSERA_ASSIGN(auto decoded, decode(std::make_shared<const Bytes>(std::move(bytes)), kFrameEntry,
                                      kMessageLimits));
  if (!decoded.metadata.empty())
    return fail(Error::kInvalid, "{}: has metadata, which mean nothing here", kFrameEntry);
  return std::move(decoded.tensors);
}

int64_t most_content(int64_t frame_bytes) {
  constexpr int64_t kTimes = 64, kAlways = int64_t{64} << 20;
  if (frame_bytes >= kMostDownload / kTimes) return kMostDownload;
  return std::max(kTimes * frame_bytes, kAlways);
}

Result<TensorDict> from_frame(const TensorDict& framed) {
  const auto at = framed.find(kFrameEntry);
  const int64_t bytes = at == framed.end() ? 0 : static_cast<int64_t>(at->second.nbytes());
  return from_frame(framed, most_content(bytes));
}

TensorDict DownloadFrames::make(TensorDict down) {
  if (level_ == 0) return down;
  if (frame_.empty() || !same_tensors(down, last_)) {
    auto framed = in_frame(down, level_);
    if (!framed.ok()) throw std::runtime_error(message(framed.status()));
    frame_ = *std::move(framed), last_ = std::move(down);
  }
  return frame_;
}

}  // namespace tessera

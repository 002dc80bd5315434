// What several attacks of the audit share. Private to this folder.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

#include "audit/attacks.hpp"

namespace tessera {

inline constexpr int64_t kVictims = 4, kShown = 8;

inline double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? std::nan("") : sum / static_cast<double>(values.size());
}

inline Picture picture_of(const Tensor& pixels) {
  const auto shown =
      (pixels.clamp(0, 1) * 255).round().to(at::kByte).permute({1, 2, 0}).contiguous();
  Picture out{static_cast<uint32_t>(shown.size(1)),
              static_cast<uint32_t>(shown.size(0)),
              static_cast<int>(shown.size(2)),
              {}};
  out.pixels.assign(shown.data_ptr<uint8_t>(), shown.data_ptr<uint8_t>() + shown.numel());
  return out;
}

inline Tensor label_tensor(const std::vector<int64_t>& labels) {
  return at::tensor(labels, at::kLong);
}

inline Status interrupted() { return fail(Error::kInterrupted, "stopped; nothing was written"); }

inline bool stopped(const AttackTime& time) { return time.stop && time.stop->load(); }

}  // namespace tessera

// Memory of one batch in the hand-written networks; for their own files only.
#pragma once

#include <array>

#include "model/fast/fast_net.hpp"

namespace tessera {
namespace fast {

constexpr size_t kMostLayers = 8;

/// Inner pixels of a bordered NHWC buffer with `channels` floats a pixel, from image `image` on.
template <class T>
Plane<T> inner(T* buffer, const ConvShape& s, int64_t channels, int64_t image) {
  const int64_t size = s.height * s.width * channels;
  return {buffer + image * size + s.border * (s.width + 1) * channels, channels, s.width * channels,
          size};
}

}  // namespace fast

/// Where things lie in the arena for one batch.
struct FastNet::Buffers {
  bool train;
  struct ConvAt {
    float* input;     // [n, height, width, in] with its border, unless the sample is read in place
    int32_t* winner;  // [n, pooled]; one group only in evaluation
    float* grad;      // of the input: [n, height, width, in_lanes]
  };
  std::array<ConvAt, fast::kMostLayers> convs;
  std::array<float*, fast::kMostLayers> linear_out;   // [n, out]
  std::array<float*, fast::kMostLayers> linear_grad;  // of the input: [n, in]
  float* image;                                       // last pooled output: [n, height, width, out]
  float* flat;         // the same channel by channel, as the linear layers want it
  float* image_grad;   // [n, height, width, out_lanes]
  float* y;            // one group's convolution output, or the gradient of it
  float* packed;       // one convolution's weights in kernel order
  float* weight_grad;  // one convolution's
  float* bias;         // one convolution's bias or the gradient of it, whole vectors
  float* panels;       // linear_weight_grad's scratch
};

}  // namespace tessera

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

inline Plane<const float> reading(const Plane<float>& plane) {
  return {plane.first, plane.pixel, plane.row, plane.image};
}

}  // namespace fast

/// Where things lie in the arena for one batch.
struct FastNet::Buffers {
  bool train;
  const Training* training;  // null: no dropout
  /// Of a batch norm, for each channel; `scale` is the norm's weight over the deviation.
  struct NormAt {
    float *mean, *inverse, *scale;  // `inverse`: of the deviation
    float *plain, *along;           // mean gradient, and along the output
  };
  struct ConvAt {
    float* input;     // [n, height, width, in] with its border, unless the sample is read in place
    int32_t* winner;  // [n, pooled]; one group only in evaluation
    float* grad;      // of the input: [n, height, width, in_lanes]
    float* y;         // with batch norm: the whole output [n, out_h, out_w, out_lanes]
    NormAt norm;
    float* mask;  // with dropout: [n, out, pooled_h, pooled_w]
    float* side;  // the input of samples side by side: [in, height, width, side]
  };
  struct LinearAt {
    float* unit;  // with batch norm: the output at mean 0 and deviation 1 [n, out]
    NormAt norm;
    float* mask;  // with dropout: [n, out]
  };
  std::array<ConvAt, fast::kMostLayers> convs;
  std::array<LinearAt, fast::kMostLayers> linears;
  std::array<float*, fast::kMostLayers> linear_out;   // [n, out]
  std::array<float*, fast::kMostLayers> linear_grad;  // of the input: [n, in]
  float* image;                                       // last pooled output: [n, height, width, out]
  float* flat;         // the same channel by channel, as the linear layers want it
  float* side;         // the same of samples side by side
  float* image_grad;   // [n, height, width, out_lanes]
  float* y;            // one group's convolution output, or the gradient of it
  float* packed;       // one convolution's weights in kernel order
  float* weight_grad;  // one convolution's
  float* bias;         // one convolution's bias or the gradient of it, whole vectors
  float* panels;       // linear_weight_grad's scratch
};

}  // namespace tessera

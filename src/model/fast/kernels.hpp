// Loops of the hand-written networks, compiled once for AVX2 and once for any x86-64.
//
// Images are NHWC. A channel count rounded up to a whole vector of 8 is called "lanes": buffers
// that kernels write by vectors have `lanes` floats a pixel, the padding being exactly 0.
#pragma once

#include <cstdint>

namespace tessera::fast {

constexpr int64_t kVector = 8;
constexpr float kEpsilon = 1e-5f;  // added to the variances of layer norms
constexpr int64_t lanes_of(int64_t channels) {
  return (channels + kVector - 1) / kVector * kVector;
}

/// One convolution (stride 1, square kernel) with the pool that follows; pool 1 means none.
struct ConvShape {
  int64_t in, out, kernel;
  int64_t height, width;  // of the input, zero border included
  int64_t border;         // width of that border
  int64_t pool, pool_stride;
  int64_t out_h, out_w;  // before pooling
  int64_t pooled_h, pooled_w;

  int64_t in_lanes() const { return lanes_of(in); }
  int64_t out_lanes() const { return lanes_of(out); }
  int64_t input_size() const { return height * width * in; }  // floats of an image
  int64_t input_grad_size() const { return height * width * in_lanes(); }
  int64_t output_size() const { return out_h * out_w * out_lanes(); }
  int64_t pooled_size() const { return pooled_h * pooled_w * out_lanes(); }
  int64_t depth() const { return kernel * kernel * in; }  // products of one output
};

/// Pixels inside a bordered buffer: the first pixel, floats a pixel, a row, an image.
template <class T>
struct Plane {
  T* first;
  int64_t pixel, row, image;
};

/// Attention of `heads` heads over `tokens` tokens, of which only the first `queries` ask.
struct AttentionShape {
  int64_t tokens, queries, heads, head_dim;

  int64_t lanes() const { return lanes_of(tokens); }
  int64_t inner() const { return heads * head_dim; }
  int64_t shares_size() const { return heads * queries * lanes(); }  // floats of a sample
  int64_t scratch_size() const { return (head_dim + queries) * lanes(); }
};

struct Kernels {
  const char* name;
  /// OIHW weights into the order that conv_forward reads: depth() × out_lanes() floats.
  void (*pack_forward)(const ConvShape&, const float* weight, float* packed);
  /// The same for conv_input_grad: kernel² × out × in_lanes() floats.
  void (*pack_backward)(const ConvShape&, const float* weight, float* packed);
  /// y [images, out_h, out_w, out_lanes], no bias.
  void (*conv_forward)(const ConvShape&, int64_t images, const float* x, const float* packed,
                       float* y);
  /// Max-pool, bias, ReLU into `out` (out channels a pixel). `winner` [images, pooled_h, pooled_w,
  /// out_lanes] gets the position of the maximum in its window, the first one on ties, or −1 where
  /// ReLU is 0. NaN comes through wherever a whole window is NaN.
  void (*pool_forward)(const ConvShape&, int64_t images, const float* y, const float* bias,
                       const Plane<float>& out, int32_t* winner);
  /// From the gradient of the pooled output (out_lanes a pixel) to that of y; adds to bias_grad
  /// [out_lanes].
  void (*pool_backward)(const ConvShape&, int64_t images, const Plane<const float>& grad,
                        const int32_t* winner, float* y_grad, float* bias_grad);
  /// Adds to weight_grad [depth(), out_lanes], rows ordered (row, column, channel).
  void (*conv_weight_grad)(const ConvShape&, int64_t images, const float* x, const float* y_grad,
                           float* weight_grad);
  /// Adds to x_grad [images, height, width, in_lanes].
  void (*conv_input_grad)(const ConvShape&, int64_t images, const float* y_grad,
                          const float* packed, float* x_grad);
  /// [depth(), out_lanes] back to OIHW.
  void (*unpack_grad)(const ConvShape&, const float* weight_grad, float* weight);

  /// y [n, out] = x [n, in] · weightᵀ + bias, then ReLU if asked.
  void (*linear_forward)(int64_t n, int64_t in, int64_t out, const float* x, const float* weight,
                         const float* bias, bool relu, float* y);
  /// weight_grad [out, in] = y_gradᵀ · x, bias_grad [out] its column sums; `scratch` holds
  /// n × lanes_of(in) floats.
  void (*linear_weight_grad)(int64_t n, int64_t in, int64_t out, const float* x,
                             const float* y_grad, float* scratch, float* weight_grad,
                             float* bias_grad);
  /// x_grad [n, in] = y_grad · weight.
  void (*linear_input_grad)(int64_t n, int64_t in, int64_t out, const float* y_grad,
                            const float* weight, float* x_grad);
  /// grad = 0 where the activation is 0 (what ReLU let through is kept, NaN too).
  void (*relu_backward)(int64_t n, const float* activation, float* grad);
  /// out [cols, rows] from in [rows, cols]; `in_row` and `out_row` are floats from row to row.
  void (*transpose)(int64_t rows, int64_t cols, const float* in, int64_t in_row, float* out,
                    int64_t out_row);

  // Of Transformers; every width and head_dim is a multiple of 8.
  /// Layer norm of each row; `stats` [rows, 2] gets its mean and the inverse of its deviation.
  void (*norm_forward)(int64_t rows, int64_t width, const float* x, const float* weight,
                       const float* bias, float* y, float* stats);
  /// Adds to all three gradients.
  void (*norm_backward)(int64_t rows, int64_t width, const float* x, const float* weight,
                        const float* stats, const float* y_grad, float* x_grad, float* weight_grad,
                        float* bias_grad);
  /// y = GELU(x + bias); x is left with the slope there.
  void (*gelu_forward)(int64_t rows, int64_t width, const float* bias, float* x, float* y);
  /// grad *= slope; adds its rows to bias_grad.
  void (*gelu_backward)(int64_t rows, int64_t width, const float* slope, float* grad,
                        float* bias_grad);
  /// Adds every row of x to `sums` [width].
  void (*add_rows)(int64_t rows, int64_t width, const float* x, float* sums);
  /// y [rows, width] = x + bias, with x_row floats from row to row of x.
  void (*add_bias)(int64_t rows, int64_t width, const float* x, int64_t x_row, const float* bias,
                   float* y);
  /// mixed [samples, queries, inner] from qkv [samples, tokens, 3·inner]; `shares` [samples, heads,
  /// queries, lanes] gets the softmax, 0 in the padding.
  void (*attention_forward)(const AttentionShape&, int64_t samples, const float* qkv, float* shares,
                            float* mixed, float* scratch);
  /// Writes the gradients of keys and values, and of the queries that ask, into qkv_grad.
  void (*attention_backward)(const AttentionShape&, int64_t samples, const float* qkv,
                             const float* shares, const float* mixed_grad, float* qkv_grad,
                             float* scratch);
};

/// The best set for this processor; the choice is made once.
const Kernels& kernels();
/// All sets this processor can run, for tests.
const Kernels& portable_kernels();
const Kernels& avx2_kernels();
bool avx2_supported();

}  // namespace tessera::fast

// Loops of the hand-written networks, compiled for AVX-512, for AVX2 and for any x86-64. Sums are
// formed in an order that depends on the set: results differ in their last bits. With one set they
// are the same on every processor that can run it.
//
// Images are NHWC. A channel count rounded up to a whole vector of 8 is called "lanes": buffers
// that kernels write by vectors have `lanes` floats a pixel, the padding being exactly 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

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

/// What a batch norm does to each lane of a convolution's output; 0 in the padding.
struct BatchScale {
  const float *mean, *scale;
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
  /// Batch norm between convolution and pool. Mean and sum of squared distances from it of each
  /// lane of y [pixels, lanes], pixels ≥ 1.
  void (*batch_moments)(int64_t pixels, int64_t lanes, const float* y, float* mean, float* squares);
  /// pool_forward of (y − mean) · scale; `bias` is the norm's.
  void (*batch_pool_forward)(const ConvShape&, int64_t images, const float* y,
                             const BatchScale& norm, const float* bias, const Plane<float>& out,
                             int32_t* winner);
  /// Sums over the pooled output of its gradient, where ReLU lets it through, into `plain`
  /// [out_lanes], and of the same times y − mean at the winner into `along`.
  void (*batch_pool_sums)(const ConvShape&, int64_t images, const Plane<const float>& grad,
                          const int32_t* winner, const float* y, const float* mean, float* plain,
                          float* along);
  /// grad [pixels, lanes] = scale · (grad − plain − (y − mean) · along), in place.
  void (*batch_input_grad)(int64_t pixels, int64_t lanes, const float* y, const BatchScale& norm,
                           const float* plain, const float* along, float* grad);
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
  /// weight [out, in] into the order that packed_linear reads, out · in floats.
  void (*pack_linear)(int64_t in, int64_t out, const float* weight, float* packed);
  /// y [rows, out] = x [rows, in] · weightᵀ, or that added to it, with x_row and y_row floats from
  /// row to row.
  void (*packed_linear)(int64_t rows, int64_t in, int64_t out, const float* x, int64_t x_row,
                        const float* packed, bool add, float* y, int64_t y_row);
  /// mixed [samples, queries, inner] from qkv [samples, tokens, 3·inner]; `shares` [samples, heads,
  /// queries, lanes] gets the softmax, 0 in the padding.
  void (*attention_forward)(const AttentionShape&, int64_t samples, const float* qkv, float* shares,
                            float* mixed, float* scratch);
  /// Writes the gradients of keys and values, and of the queries that ask, into qkv_grad.
  void (*attention_backward)(const AttentionShape&, int64_t samples, const float* qkv,
                             const float* shares, const float* mixed_grad, float* qkv_grad,
                             float* scratch);

  // Convolutions in evaluation, with `side` samples side by side: every number is a vector, with
  // one of each sample, and images are CHW. Layers of any width fill the vectors.
  int64_t side;
  /// Convolution, max-pool, bias and ReLU as above; weights are read as they are. x [in, height,
  /// width] with its border; an image of y is a channel, its pixel is not looked at.
  void (*side_conv)(const ConvShape&, const float* x, const float* weight, const float* bias,
                    const Plane<float>& y);

  // Of GRUs; h, the units, is a multiple of 8, and so are inputs of which a gradient is wanted.
  /// weight_ih [3h, inputs] and weight_hh [3h, h], gates reset, update, new, into the order that
  /// gru_forward_step reads: (inputs + h) · 3h floats.
  void (*gru_pack_forward)(int64_t inputs, int64_t h, const float* weight_ih,
                           const float* weight_hh, float* packed);
  /// One step. `bias` [4h]: reset, update, new from the inputs, new from the states. x has n rows,
  /// x_row floats apart. `after` [n, h] gets the new states, and `trace` [n, 4h], unless null, what
  /// the way back needs.
  void (*gru_forward_step)(int64_t n, int64_t inputs, int64_t h, const float* packed,
                           const float* bias, const float* x, int64_t x_row, const float* before,
                           float* trace, float* after);
  /// weight [3h, columns] for the way back: that of the states, or with new_first that of the
  /// inputs; 3h · columns floats.
  void (*gru_pack_backward)(int64_t h, int64_t columns, const float* weight, bool new_first,
                            float* packed);
  /// `state` [n, h] holds the gradient of the states after the step, to which `above` [n, h] is
  /// added unless null, and is left with that of those before it; with `packed` null (the step is
  /// the first, nobody asks for what was before it) it is of no use then. `slopes` [rows, 4h], of
  /// several steps in an order of its own, gets the gradients of what goes into the gates in the
  /// rows from `first` on.
  void (*gru_backward_step)(int64_t n, int64_t h, const float* packed, const float* trace,
                            const float* before, const float* above, float* state, int64_t rows,
                            int64_t first, float* slopes);
  /// x_grad [rows, inputs] from all rows of the slopes.
  void (*gru_input_grad)(int64_t rows, int64_t h, int64_t inputs, const float* slopes,
                         const float* packed, float* x_grad);
  /// Adds to weight_grad [inputs, 3h] the products of x [rows, inputs] with the slopes: new, reset,
  /// update, or where x are the states before reset, update, new.
  void (*gru_weight_grad)(int64_t rows, int64_t h, int64_t inputs, const float* slopes,
                          const float* x, bool states, float* weight_grad);
  /// Adds the slopes' sums to bias_grad [4h]: new from the inputs, reset, update, new from the
  /// states.
  void (*gru_bias_grad)(int64_t rows, int64_t h, const float* slopes, float* bias_grad);
  /// How wide the slopes' panels are: each holds its columns of all rows, one after the other.
  int64_t (*gru_panel)(int64_t h);
};

/// All sets that this processor can run, the best one first, portable last.
std::vector<const Kernels*> runnable_kernels();
/// A set by its name; "auto" is the best. kInvalid, in one sentence, where this processor cannot
/// run it or there is none of that name.
Result<const Kernels*> kernels_named(const std::string& name);

/// What networks made now by this thread will use: the set of the innermost KernelScope, else the
/// best.
const Kernels& kernels();

/// Networks made in its lifetime, by its thread, use this set.
class KernelScope {
 public:
  explicit KernelScope(const Kernels& set);
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  const Kernels* before_;
};

// One set each, in a file of its own; call only what runnable_kernels() has.
const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

}  // namespace tessera::fast

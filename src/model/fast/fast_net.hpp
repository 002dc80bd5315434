// Training step and evaluation of sequential networks, written by hand: no autograd, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/fast/kernels.hpp"
#include "model/model.hpp"
#include "model/sequential.hpp"

namespace tessera {

/// Immutable and thread-safe; activations live in a buffer per thread that only ever grows. The
/// same call gives the same bits on every thread. Dropout is not applied: see supports().
class FastNet {
 public:
  /// Whether the gradient can be had here: ReLU, no batch norm, pools of at most 3, no dropout
  /// unless `evaluation` (dropout does nothing there).
  static bool supports(const SequentialSpec& spec, bool evaluation);

  explicit FastNet(const SequentialSpec& spec);
  /// With a given set of kernels, for tests.
  FastNet(const SequentialSpec& spec, const fast::Kernels& kernels);

  /// Mean loss over the batch into `value` and its gradient (flat order of sequential.hpp, every
  /// entry) into `grad`. x float32 of any shape with n samples, y int64 [n]. False, and nothing
  /// written, when the arguments are of another kind. Throws std::out_of_range on a class outside
  /// the network's. A maximum that a pool window holds twice counts at its first position, as in
  /// torch.
  bool value_and_grad(const float* w, const Tensor& x, const Tensor& y, Loss loss, float* grad,
                      double& value) const;
  /// As Model::clipped_gradient: Σ g_i · min(1, bound / |g_i|) / count over the gradients g_i of
  /// single samples, and all |g_i|. False, and nothing written, as above.
  bool clipped_gradient(const float* w, const Tensor& x, const Tensor& y, Loss loss,
                        const Clip& clip, float* grad, std::vector<double>& norms,
                        double& value) const;
  /// The Hessian of the same mean loss times `v`, into `product` (every entry of both in flat
  /// order). False, and nothing written, as above.
  bool hessian_times(const float* w, const Tensor& x, const Tensor& y, Loss loss, const float* v,
                     float* product) const;
  /// Logits [n, classes]; x float32 with n samples.
  void predict(const float* w, const Tensor& x, float* logits) const;
  /// What the first linear layer sees: [n, its inputs], channel by channel.
  void maps(const float* w, const Tensor& x, float* out) const;

  int64_t classes() const { return linears_.back().out; }
  int64_t parameters() const { return parameters_; }
  int64_t sample_size() const { return sample_size_; }
  /// Floats held by the calling thread's buffer, over all networks.
  static size_t arena_size();

 private:
  struct Linear {
    int64_t in, out;
    bool relu;
    int64_t weight, bias;  // positions in the flat vector
  };
  struct Conv {
    fast::ConvShape shape;
    int64_t weight, bias;
    int64_t group;  // images a kernel call takes: few enough that its buffers stay in the cache
  };
  struct Buffers;
  struct Curvature;

  bool accepts(const Tensor& x, const Tensor& y) const;
  Buffers buffers_for(int64_t n, bool train) const;
  size_t place(int64_t n, bool train, float* block, Buffers& at) const;
  void forward(const float* w, const float* x, int64_t n, const Buffers& at) const;
  /// The samples as the first linear layer sees them.
  const float* forward_convs(const float* w, const float* x, int64_t n, const Buffers& at) const;
  /// some(first, x, n, buffers) over few samples at a time, for evaluation.
  template <class Some>
  void in_parts(const Tensor& x, const Some& some) const;
  void forward_conv(size_t layer, const float* w, const float* x, int64_t n,
                    const Buffers& at) const;
  void backward_linears(const float* w, const float* x, int64_t n, const Buffers& at,
                        float* grad) const;
  void backward_conv(size_t layer, const float* w, const float* x, int64_t n, const Buffers& at,
                     float* grad) const;
  /// Between the last image [n, height, width, out] and what the linear layers see, both ways.
  void flatten(int64_t n, const Buffers& at) const;
  void unflatten(int64_t n, const Buffers& at) const;
  /// The gradient of a convolution's pooled output, from image `image` on.
  fast::Plane<const float> above(size_t layer, int64_t image, const Buffers& at) const;

  /// From the logits' gradient down, once forward() has been.
  void backward(const float* w, const float* x, int64_t n, const Buffers& at, float* grad) const;

  // per_sample.cpp: each adds the squared norms of a layer's gradients, sample by sample
  void add_linears(const float* w, const float* x, int64_t n, const Buffers& at,
                   std::vector<double>& squares) const;
  void add_conv(size_t layer, const float* w, const float* x, int64_t n, const Buffers& at,
                std::vector<double>& squares) const;

  // fast_hessian.cpp
  void along_forward(const Curvature& pass) const;
  void along_conv(size_t layer, const Curvature& pass) const;
  void along_linears(const Curvature& pass, float* product) const;
  void along_conv_back(size_t layer, const Curvature& pass, float* product) const;

  const float* conv_input(size_t layer, const float* x, const Buffers& at) const;
  bool reads_sample_directly() const;

  const fast::Kernels& kernels_;
  std::vector<Conv> convs_;
  std::vector<Linear> linears_;
  int64_t sample_size_ = 0, parameters_ = 0;
};

}  // namespace tessera

// Training step and evaluation of sequential networks, written by hand: no autograd, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/fast/kernels.hpp"
#include "model/model.hpp"
#include "model/sequential.hpp"

namespace tessera {
namespace fast {
class Cutter;
}

/// Immutable and thread-safe; activations live in a buffer per thread that only ever grows. The
/// same call gives the same bits on every thread.
class FastNet {
 public:
  /// Whether it can be had here: ReLU, pools of at most 3, nothing behind the last layer.
  static bool supports(const SequentialSpec& spec);

  /// How batch norm and dropout behave in training, as Pass says.
  struct Training {
    uint64_t key;
    float* running;  // means and variances as in Weights::b; moved by the pass
  };

  explicit FastNet(const SequentialSpec& spec);
  /// With a given set of kernels, for tests.
  FastNet(const SequentialSpec& spec, const fast::Kernels& kernels);

  /// Mean loss over the batch into `value` and its gradient (flat order of sequential.hpp, every
  /// entry) into `grad`. x float32 of any shape with n samples, y int64 [n]. False, and nothing
  /// written, when the arguments are of another kind. Throws std::out_of_range on a class outside
  /// the network's. A maximum that a pool window holds twice counts at its first position, as in
  /// torch.
  /// Without `training` dropout is not applied, and there must be no batch norm, as in all that
  /// follows: fold.hpp gets rid of them.
  bool value_and_grad(const float* w, const Tensor& x, const Tensor& y, Loss loss, float* grad,
                      double& value, const Training* training = nullptr) const;
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
  /// Where a batch norm's weight begins in the flat vector, with its bias behind, and its mean in
  /// the running values, with its variance behind; −1: there is none.
  struct Norm {
    int64_t weight = -1, running = -1;
    explicit operator bool() const { return weight >= 0; }
  };
  struct Linear {
    int64_t in, out;
    bool relu;
    double dropout;
    int64_t weight, bias;  // positions in the flat vector
    Norm norm;
  };
  struct Conv {
    fast::ConvShape shape;
    double dropout;
    int64_t weight, bias;
    Norm norm;
    int64_t group;  // images a kernel call takes: few enough that its buffers stay in the cache
  };
  struct Buffers;
  struct Curvature;

  bool accepts(const Tensor& x, const Tensor& y) const;
  Buffers buffers_for(int64_t n, bool train, const Training* training = nullptr) const;
  size_t place(int64_t n, bool train, float* block, Buffers& at) const;
  size_t place_side(int64_t n, fast::Cutter& cut, Buffers& at) const;
  void forward(const float* w, const float* x, int64_t n, const Buffers& at) const;
  /// The samples as the first linear layer sees them.
  const float* forward_convs(const float* w, const float* x, int64_t n, const Buffers& at) const;
  /// some(first, x, n, buffers) over few samples at a time, for evaluation.
  template <class Some>
  void in_parts(const Tensor& x, const Some& some) const;
  /// Whether convolutions fill vectors better with samples than with channels.
  bool better_side_by_side() const;
  /// forward_convs with samples side by side.
  void side_convs(const float* w, const float* x, int64_t n, const Buffers& at) const;
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
  fast::Plane<float> above(size_t layer, int64_t image, const Buffers& at) const;

  /// A convolution's pooled output, from image `image` on.
  fast::Plane<float> pooled(size_t layer, int64_t image, const Buffers& at) const;

  // fast_training.cpp: batch norm and dropout.
  Norm next_norm(bool there, int64_t width);
  /// Moments of a convolution's whole output, then all groups through norm, pool and ReLU.
  void norm_conv(size_t layer, const float* w, int64_t n, const Buffers& at) const;
  /// Gradients of the norm, and what the groups' gradients need of the whole batch.
  void norm_conv_back(size_t layer, int64_t n, const Buffers& at, float* grad) const;
  /// Norm, ReLU and dropout of a linear layer's output in place, and back.
  void finish_linear(size_t layer, const float* w, int64_t n, const Buffers& at) const;
  void finish_linear_back(size_t layer, int64_t n, const Buffers& at, float* out_grad,
                          float* grad) const;
  /// Multiplies a convolution's pooled output, or its gradient, by the mask of its dropout.
  void drop_conv(size_t layer, int64_t n, const fast::Plane<float>& plane, const Buffers& at) const;

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
  int64_t sample_size_ = 0, parameters_ = 0, running_ = 0;
  bool side_by_side_ = false;  // in evaluation
};

}  // namespace tessera

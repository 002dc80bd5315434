// Training step and evaluation of Vision Transformers, written by hand, without autograd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/fast/kernels.hpp"
#include "model/model.hpp"
#include "model/vit.hpp"

namespace tessera {

/// Immutable and thread-safe; activations live in the thread's buffer, a few samples at a time, so
/// that they stay in the cache. The same call gives the same bits on every thread. Only the class
/// token leaves the last block, so there nothing else asks, and nothing else is computed that it
/// does not see. Dropout is not applied: see supports().
class FastVit {
 public:
  /// Widths in whole vectors, and no dropout unless for evaluation, where it does nothing.
  static bool supports(const VitSpec& spec, bool evaluation);

  /// `layout` is Vit's.
  FastVit(const VitSpec& spec, const Layout& layout);
  /// With a given set of kernels, for tests.
  FastVit(const VitSpec& spec, const Layout& layout, const fast::Kernels& kernels);

  /// Mean loss over the batch into `value` and its gradient (every entry) into `grad`. x float32
  /// with n samples, y int64 [n]. False, and nothing written, when the arguments are of another
  /// kind. Throws std::out_of_range on a class outside the network's.
  bool value_and_grad(const float* w, const Tensor& x, const Tensor& y, Loss loss, float* grad,
                      double& value) const;
  /// As Model::clipped_gradient; false, and nothing written, as above.
  bool clipped_gradient(const float* w, const Tensor& x, const Tensor& y, Loss loss,
                        const Clip& clip, float* grad, std::vector<double>& norms,
                        double& value) const;
  /// Logits [n, classes]; x float32 with n samples.
  void predict(const float* w, const Tensor& x, float* logits) const;

 private:
  struct BlockAt {  // positions in the flat vector, in its order
    int64_t norm1, norm1_bias, qkv, out, out_bias, norm2, norm2_bias, fc1, fc1_bias, fc2, fc2_bias;
  };
  struct BlockBuffers;
  struct Buffers;

  int64_t sample_size() const { return spec_.channels * spec_.height * spec_.width; }
  fast::AttentionShape attention(size_t block) const;
  size_t place(int64_t n, bool train, float* memory, Buffers& at) const;
  Buffers buffers_for(int64_t n, bool train) const;
  /// Once a call; later groups, which are never larger, find it where it was.
  void pack(const float* w, const Buffers& at) const;
  void cut_patches(const float* x, int64_t n, float* patches) const;
  void embed(const float* w, const float* x, int64_t n, const Buffers& at) const;
  void forward_block(size_t block, const float* w, int64_t n, const Buffers& at) const;
  void forward(const float* w, const float* x, int64_t n, const Buffers& at) const;
  void backward_mlp(size_t block, const float* w, int64_t rows, const Buffers& at,
                    float* grad) const;
  void backward_attention(size_t block, const float* w, int64_t n, const Buffers& at,
                          float* grad) const;
  void backward_embedding(int64_t n, const Buffers& at, float* grad) const;
  void backward(const float* w, int64_t n, const Buffers& at, float* grad) const;
  /// Clipped where there is a clip.
  bool gradient(const float* w, const Tensor& x, const Tensor& y, const Loss& loss,
                const Clip* clip, float* grad, std::vector<double>& norms, double& value) const;
  /// What belongs to sample i.
  Buffers sample(const Buffers& at, int64_t i) const;
  /// Of the gradients of single samples; `scratch` has as many floats as there are parameters.
  std::vector<double> squares(const float* w, int64_t n, const Buffers& at, float* scratch) const;

  VitSpec spec_;
  const fast::Kernels& kernels_;
  int64_t weight_, bias_, class_token_, positions_;  // of the embedding
  std::vector<BlockAt> blocks_;
  int64_t norm_, norm_bias_, head_, head_bias_;
  int64_t parameters_;
};

}  // namespace tessera

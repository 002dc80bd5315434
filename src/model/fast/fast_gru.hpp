// Training step and evaluation of gated recurrent units, written by hand: no autograd, no
// allocation.
#pragma once

#include <cstdint>
#include <vector>

#include "model/fast/kernels.hpp"
#include "model/gru.hpp"

namespace tessera {

/// Immutable and thread-safe; what a call needs lies in a buffer per thread that only ever grows.
/// The same call gives the same bits on every thread. Weights are flat in the order of gru.hpp.
class FastGru {
 public:
  FastGru(const GruSpec& spec, const fast::Kernels& kernels);

  struct Batch {
    const float* x;  // [n, steps, inputs], n ≥ 1
    int64_t n, steps;
    const int64_t* y;  // [n]
  };
  /// Mean loss into `value`, its gradient, every entry, into `grad`. Throws std::out_of_range on a
  /// class outside the network's.
  void value_and_grad(const float* w, const Batch& batch, const Loss& loss, float* grad,
                      double& value) const;
  /// As Model::clipped_gradient: Σ g_i · min(1, bound / |g_i|) / count over the gradients g_i of
  /// single samples, and all |g_i|. Throws as above.
  void clipped_gradient(const float* w, const Batch& batch, const Loss& loss, const Clip& clip,
                        float* grad, std::vector<double>& norms, double& value) const;
  /// Logits [n, classes].
  void predict(const float* w, const float* x, int64_t n, int64_t steps, float* logits) const;

 private:
  struct Layer {
    int64_t columns;  // of weight_ih
    int64_t inputs;   // the same, but whole vectors of states where a layer is below
    int64_t weight_ih, weight_hh, bias_ih, bias_hh;  // positions in the flat vector
  };
  struct LayerAt;
  struct Buffers;

  enum class Work { kPredict, kTrain, kClip };
  size_t place(int64_t n, int64_t steps, Work work, float* block, Buffers& at) const;
  Buffers buffers_for(int64_t n, int64_t steps, Work work) const;
  /// Weights of whole vectors and in the kernels' order.
  void pack(const float* w, const Buffers& at) const;
  /// [3·units, columns] with h rows a gate and `width` columns, those added being 0; `weight`
  /// itself where nothing is to be added.
  const float* whole(const float* weight, int64_t columns, int64_t width, float* room) const;
  /// `x` has `x_row` floats from sample to sample and `x_step` from step to step. Leaves the last
  /// states, `units` of each, in `at.last`.
  void forward(const float* x, int64_t x_row, int64_t x_step, int64_t n, int64_t steps,
               const Buffers& at) const;
  /// All the way forward; leaves the loss' gradient in `at.logits` and returns the loss.
  double loss_of(const float* w, const Batch& batch, const Loss& loss, const Buffers& at) const;
  /// The last states' gradients, where every way back begins.
  void start_back(const float* w, int64_t n, const Buffers& at) const;
  /// All the way back from `at.logits`.
  void gradient(const float* w, int64_t n, int64_t steps, Buffers& at, float* grad) const;
  void backward(size_t layer, int64_t n, int64_t steps, const Buffers& at, float* grad) const;
  /// The squared norms of single samples' gradients, from `at.logits`.
  std::vector<double> squares(const float* w, int64_t n, int64_t steps, Buffers& at) const;
  void add_squares(size_t layer, int64_t n, int64_t steps, const Buffers& at,
                   std::vector<double>& out) const;
  void unpack_gradient(size_t layer, const Buffers& at, float* grad) const;

  GruSpec spec_;
  const fast::Kernels& kernels_;
  int64_t h_;  // units in whole vectors
  std::vector<Layer> layers_;
  int64_t head_weight_ = 0, head_bias_ = 0;
};

}  // namespace tessera

// Convolutional and fully connected networks as a list of stages; a network is a few lines.
//
// Flat order: convolutions, then linear layers; each weight then bias, then its batch norm's weight
// and bias. Convolution weights are OIHW, linear ones out×in, as in PyTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "model/fill.hpp"
#include "model/model.hpp"
#include "model/second_order.hpp"

namespace tessera {

/// Between layers. kGelu is the exact one.
enum class Activation { kRelu, kTanh, kGelu, kSigmoid };

/// Square convolution, then (batch norm), max-pool without padding, activation, (dropout), in this
/// order. Where the activation never falls (ReLU, tanh, sigmoid), pooling before it is the same
/// function and a quarter of the work; GELU falls below 0, so it comes before the pool.
struct ConvStage {
  int64_t in, out, kernel;
  int64_t pad = 0;          // zeros on each side
  int64_t stride = 1;       // of the kernel
  int64_t pool = 0;         // window; 0 = none
  int64_t pool_stride = 0;  // > 0 where pool > 0
  bool batch_norm = false;
  double dropout = 0.0;  // probability of zeroing, in training
};

/// Linear, then (batch norm), (activation), (dropout). The last stage is the head: nothing follows
/// it.
struct LinearStage {
  int64_t in, out;
  bool relu = true;      // whether the network's activation follows
  double dropout = 0.0;  // probability of zeroing, in training
  bool batch_norm = false;
};

/// With convolutions `sample` is {C, H, W} and their output is flattened channel by channel (CHW)
/// for the first linear stage; without, a sample of any shape is flattened. At least one linear.
struct SequentialSpec {
  std::vector<int64_t> sample;
  std::vector<ConvStage> convs;
  std::vector<LinearStage> linears;
  Activation activation = Activation::kRelu;
};

/// What happens to the map [n, C, H, W] between the convolutions and the first linear stage.
using MapHook = std::function<Tensor(const Tensor& map)>;

class FastNet;

/// The network of a description whose stages fit together (models() sees to that).
class Sequential final : public Model, public SecondOrder {
 public:
  Sequential(SequentialSpec spec, Init init);
  ~Sequential() override;

  const SequentialSpec& spec() const { return spec_; }
  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return buffers_; }
  Weights init(uint64_t key) const override;
  Output forward(const Weights& at, const Tensor& x, const Pass& pass) const override;
  bool value_and_grad(const Weights& at, const Tensor& x, const Tensor& y, Loss loss, Tensor& grad,
                      double& value) const override;
  bool training_gradient(Weights& at, const Tensor& x, const Tensor& y, Loss loss, uint64_t key,
                         Tensor& grad, double& value) const override;
  bool clipped_gradient(const Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                        const Clip& clip, Tensor& grad, std::vector<double>& norms,
                        double& value) const override;
  std::string no_clipping() const override;
  bool hessian_times(const Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                     const Tensor& v, Tensor& product) const override;
  Tensor predict(const Weights& at, const Tensor& x) const override;

  /// {C, H, W} behind the convolutions; the sample's own shape where there are none.
  const std::vector<int64_t>& map_shape() const { return map_shape_; }
  /// forward() with the map replaced by hook(map), of the same shape.
  Output forward_through(const MapHook& hook, const Weights& at, const Tensor& x,
                         const Pass& pass) const;
  /// The maps [n, C, H, W] of samples x, in evaluation mode without autograd.
  Tensor maps(const Weights& at, const Tensor& x) const;
  /// The linear stages as a network of their own, whose samples are maps. Its weights and buffers
  /// are the last ones of this network's, in the same order.
  std::unique_ptr<Sequential> upper() const;

 private:
  /// As fast_ wants them: batch norms folded in.
  Tensor plain_weights(const Weights& at) const;
  bool by_hand(const Tensor& flat) const;

  SequentialSpec spec_;
  Init init_;
  std::vector<int64_t> map_shape_;
  // For ReLU only. Batch norms are left out of fast_, predict() folds them in; trained_ has them,
  // and is empty where there are none.
  std::unique_ptr<FastNet> fast_, trained_;
  bool same_in_training_;  // neither batch norm nor dropout
  Layout layout_, buffers_;
  std::vector<Fill> fills_, buffer_fills_;  // one per slice
};

}  // namespace tessera

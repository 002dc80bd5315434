// Convolutional block attention (Woo et al., "CBAM", ECCV 2018) in front of the linear stages of a
// convolutional network: which channels, then which places, of the feature map matter.
//
//   Mc(F)  = sigmoid(W1 relu(W0 mean_hw F) + W1 relu(W0 max_hw F) + b)        [n, C]
//   F'     = Mc(F) F
//   Ms(F') = sigmoid(conv_k×k [mean_c F'; max_c F'] + b_s)                    [n, 1, H, W]
//   output = s Ms(F') F',   s = 1 / sigmoid(bias)²
//
// Both biases start at `bias` and the other weights near 0, so s undoes the gates of a new module:
// inserting it into a trained network hardly changes what the network predicts. The defaults were
// the best on validation data that do so (CIFAR-10, partition cbam, cnn32-s, three epochs). A
// neutral module changes nothing at all: bias, W1 and the convolution start at 0, so both gates are
// ½ where the sigmoid is steepest, and s = 4. W0 is drawn, or nothing would ever move W1.
#pragma once

#include <memory>

#include "model/fill.hpp"
#include "model/sequential.hpp"

namespace tessera {

struct CbamOptions {
  int64_t reduction = 16;  // C / reduction units between W0 and W1, at least one
  int64_t kernel = 0;      // odd side k of the spatial convolution; 0: see kernel_for
  double bias = 4.0;       // of both gates at the start
  double std = 0.01;       // of the other weights at the start
  bool neutral = false;    // `bias` is then 0, `std` that of W0 alone
};

/// 7, or 5 where the map is lower or narrower than 7, or less where that reaches past the map from
/// every place: 2·min(H, W) − 1 is the widest convolution all of whose weights can matter.
int64_t kernel_for(const std::vector<int64_t>& map_shape);

/// `base` with attention to its maps. Flat order: the base's weights, then the module's. The base
/// may also be upper() of another network, whose samples are maps already.
class Cbam final : public Model {
 public:
  /// std::invalid_argument where samples are not images or the kernel is even or too wide.
  Cbam(std::shared_ptr<const Sequential> base, const CbamOptions& options);

  const Sequential& base() const { return *base_; }
  const CbamOptions& options() const { return options_; }
  double scale() const { return scale_; }  // s above
  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return base_->buffers(); }
  Weights init(uint64_t key) const override { return inserted(base_->init(key), key); }
  Output forward(const Weights& at, const Tensor& x, const Pass& pass) const override;

  /// The base's weights with a new module behind them.
  Weights inserted(const Weights& base, uint64_t key) const;

  struct Gates {
    Tensor channel;  // Mc: [n, C] in (0, 1)
    Tensor spatial;  // Ms: [n, 1, H, W] in (0, 1)
  };
  /// The attention paid to the maps of samples x, without autograd.
  Gates gates(const Weights& at, const Tensor& x) const;

 private:
  std::vector<Tensor> own_views(const Weights& at) const;

  std::shared_ptr<const Sequential> base_;
  CbamOptions options_;
  double scale_ = 1;
  Layout own_, layout_;
  std::vector<Fill> fills_;  // of own_
};

}  // namespace tessera

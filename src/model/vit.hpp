// Vision Transformers: an image as a sequence of patches (Dosovitskiy et al., ICLR 2021).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/fill.hpp"
#include "model/model.hpp"

namespace tessera {

/// Images {channels, height, width} whose sides the patch divides. All counts are at least 1;
/// whoever makes one checks that.
struct VitSpec {
  int64_t channels, height, width, patch;
  int64_t dim, depth, heads, head_dim, mlp;  // mlp: hidden units of a block's two-layer network
  int64_t classes;
  double dropout = 0.0;  // in training: after the embedding, to_out, GELU and fc2

  /// Tokens are the patches and the class token; a patch has patch_size() numbers.
  int64_t patches() const { return (height / patch) * (width / patch); }
  int64_t tokens() const { return patches() + 1; }
  int64_t patch_size() const { return channels * patch * patch; }
  int64_t inner() const { return heads * head_dim; }  // width of the queries of all heads
};

/// Kernels by hand for some shapes; not part of the contract.
class FastVit;

/// Class token and learned positions, then `depth` pre-norm blocks
///   x += to_out(attention(norm(x))),  x += fc2(GELU(fc1(norm(x)))),
/// then a norm and the head on the class token. GELU is the exact one. Patches are read row by row,
/// each flattened as channel, row, column: `embedding.weight` is a convolution's of stride `patch`.
/// `to_qkv` [3·heads·head_dim, dim] has no bias; its rows are W_Q, W_K, W_V, each head by head.
class Vit final : public Model {
 public:
  /// kHe0: truncated normals of deviation 0.02, no biases; kTorch: torch's uniform. Norms start as
  /// the identity in both.
  Vit(VitSpec spec, Init init);
  ~Vit() override;

  const VitSpec& spec() const { return spec_; }
  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return buffers_; }
  Weights init(uint64_t key) const override;
  /// x [n, channels, height, width]; logits [n, classes], features [n, dim]: the class token after
  /// the last norm. Dropout only with pass.train, drawn from pass.key.
  Output forward(const Weights& at, const Tensor& x, const Pass& pass) const override;
  /// False with dropout, for other types than float32, and for shapes without fast kernels.
  bool value_and_grad(const Weights& at, const Tensor& x, const Tensor& y, Loss loss, Tensor& grad,
                      double& value) const override;
  /// As value_and_grad.
  bool clipped_gradient(const Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                        const Clip& clip, Tensor& grad, std::vector<double>& norms,
                        double& value) const override;
  std::string no_clipping() const override;
  /// Within rounding what forward gives.
  Tensor predict(const Weights& at, const Tensor& x) const override;

 private:
  VitSpec spec_;
  Layout layout_, buffers_;
  std::vector<Fill> fills_;
  std::unique_ptr<FastVit> fast_;  // may be empty
  bool fast_gradient_ = false;     // not with dropout
};

}  // namespace tessera

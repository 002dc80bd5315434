// Stacked gated recurrent units whose last state a linear layer reads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/fill.hpp"
#include "model/model.hpp"

namespace tessera {

class FastGru;

/// A sample is {steps, inputs} with any number of steps from 1 on. All four are at least 1.
struct GruSpec {
  int64_t inputs, hidden, layers, classes;
};

/// Gates, names and both biases as in PyTorch (reset, update, new; layer i is a one-layer GRU
/// module "gru<i>"), from plain operations, so that it can be differentiated twice. The last
/// layer's last state is what "head" reads. Neither dropout nor running statistics: training and
/// evaluation are the same function, and `buffers` is [0]. Immutable and thread-safe.
class Gru final : public Model {
 public:
  /// kHe0: Xavier for inputs and orthogonal for states, gate by gate, no biases; kTorch: uniform.
  Gru(GruSpec spec, Init init);
  ~Gru() override;

  const GruSpec& spec() const { return spec_; }
  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return buffers_; }
  Weights init(uint64_t key) const override;
  /// x [n, steps, inputs], any floating type; logits [n, classes], features [n, hidden]. Throws
  /// std::invalid_argument for another shape.
  Output forward(const Weights& at, const Tensor& x, const Pass& pass) const override;
  /// For contiguous float32 weights and gradient and at least one sample; else false. Throws as
  /// forward.
  bool value_and_grad(const Weights& at, const Tensor& x, const Tensor& y, Loss loss, Tensor& grad,
                      double& value) const override;
  /// Of the same arguments.
  bool clipped_gradient(const Weights& at, const Tensor& x, const Tensor& y, Loss loss,
                        const Clip& clip, Tensor& grad, std::vector<double>& norms,
                        double& value) const override;
  std::string no_clipping() const override { return ""; }
  /// By hand for contiguous float32 weights.
  Tensor predict(const Weights& at, const Tensor& x) const override;

 private:
  /// Clipped where there is a clip.
  bool gradient(const Weights& at, const Tensor& x, const Tensor& y, const Loss& loss,
                const Clip* clip, Tensor& grad, std::vector<double>& norms, double& value) const;
  /// Throws std::invalid_argument.
  void check(const Tensor& x) const;

  GruSpec spec_;
  std::unique_ptr<FastGru> fast_;
  Layout layout_, buffers_;
  std::vector<Fill> fills_;
};

}  // namespace tessera

// Stacked gated recurrent units whose last state a linear layer reads.
#pragma once

#include <cstdint>
#include <vector>

#include "model/fill.hpp"
#include "model/model.hpp"

namespace tessera {

/// A sample is {steps, inputs} with any number of steps from 1 on.
struct GruSpec {
  int64_t inputs, hidden, layers, classes;
};

/// Gates, names and both biases as in PyTorch (reset, update, new; layer i is a one-layer GRU
/// module "gru<i>"), from plain operations, so that it can be differentiated twice.
class Gru final : public Model {
 public:
  Gru(GruSpec spec, Init init);

  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return buffers_; }
  Weights init(uint64_t key) const override;
  Output forward(const Weights& at, const Tensor& x, const Pass& pass) const override;
  bool value_and_grad(const Weights& at, const Tensor& x, const Tensor& y, Loss loss, Tensor& grad,
                      double& value) const override;

 private:
  void check(const Tensor& x) const;

  GruSpec spec_;
  Layout layout_, buffers_;
  std::vector<Fill> fills_;
};

}  // namespace tessera

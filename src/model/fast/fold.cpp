#include "model/fast/fold.hpp"

#include <ATen/ATen.h>

#include <utility>

#include "model/layers.hpp"

namespace tessera::fast {

SequentialSpec without_norms(SequentialSpec spec) {
  for (auto& stage : spec.convs) stage.batch_norm = false;
  for (auto& stage : spec.linears) stage.batch_norm = false;
  return spec;
}

Tensor folded(const SequentialSpec& spec, const Layout& layout, const Layout& buffers,
              const Weights& at) {
  const at::NoGradGuard no_grad;
  const auto trained = layout.views(at.w), running = buffers.views(at.b);
  size_t w = 0, b = 0;
  std::vector<Tensor> parts;
  const auto stage = [&](bool batch_norm) {
    Tensor weight = trained[w].flatten(1), bias = trained[w + 1];
    w += 2;
    if (batch_norm) {
      const Tensor scale = trained[w] / (running[b + 1] + kNormEpsilon).sqrt();
      weight = weight * scale.unsqueeze(1);
      bias = (bias - running[b]) * scale + trained[w + 1];
      w += 2, b += 2;
    }
    parts.push_back(weight.flatten());
    parts.push_back(bias);
  };
  for (const auto& conv : spec.convs) stage(conv.batch_norm);
  for (const auto& linear : spec.linears) stage(linear.batch_norm);
  return at::cat(parts);
}

}  // namespace tessera::fast

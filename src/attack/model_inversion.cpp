#include "attack/model_inversion.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "train/optimizer.hpp"

namespace tessera {
namespace {

/// Of the sum over pictures, so that none depends on its neighbours.
Tensor class_objective(const InvertedModel& target, const Tensor& pixels, const Tensor& labels,
                       const ModelInversionOptions& options) {
  const auto logits = target.model.forward(target.at, target.scale.to_inputs(pixels), {}).logits;
  const auto surprise = at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum);
  const auto rough = total_variation(pixels) * pixels.size(0);
  return surprise + options.norm * pixels.square().sum() + options.tv * rough;
}

}  // namespace

Tensor invert_model(const InvertedModel& target, const Tensor& labels,
                    const ModelInversionOptions& options, uint64_t key) {
  std::vector<int64_t> shape{labels.size(0)};
  shape.insert(shape.end(), target.sample.begin(), target.sample.end());
  const auto noise = gaussian_noise(shape, key).to(target.at.w.scalar_type());
  auto pixels = target.scale.to_pixels(noise).clamp(0, 1).contiguous();
  TrainOptions adam;
  adam.optimizer = "adam";
  Optimizer optimizer(adam, options.lr);
  for (int64_t step = 1; step <= options.steps && !(target.stop && target.stop()); ++step) {
    const auto here = pixels.detach().requires_grad_(true);
    auto slope = torch::autograd::grad({class_objective(target, here, labels, options)}, {here})[0];
    optimizer.step(pixels, slope);
    pixels.clamp_(0, 1);
    // Not after the last step: it would undo what the steps before it found.
    if (step % options.blur_every == 0 && step < options.steps)
      pixels.copy_(blurred(pixels, options.blur));
  }
  return pixels.to(at::kFloat);
}

ModelInversionScore score_model_inversion(const Examples& reconstructed,
                                          const InvertedModel& evaluator, const Examples& training,
                                          const SsimWindow& window) {
  const auto& [pictures, labels] = reconstructed;
  const auto taken =
      evaluator.model.predict(evaluator.at, evaluator.scale.to_inputs(pictures)).argmax(1);
  ModelInversionScore out;
  out.evaluator_accuracy = (taken == labels).to(at::kDouble).mean().item<double>();
  const auto known = training.x.to(at::kDouble).clamp(0, 1).flatten(1);
  double likeness = 0, compared = 0;
  for (int64_t i = 0; i < pictures.size(0); ++i) {
    const auto picture = pictures[i].to(at::kDouble);
    const auto own = at::nonzero(training.y == labels[i]).flatten();
    if (own.numel() > 0)
      likeness += ssim(picture, mean_image(training.x.index_select(0, own)), window), ++compared;
    const auto far = (known - picture.flatten().clamp(0, 1)).square().mean(1).min();
    out.nearest += std::sqrt(far.item<double>()) / static_cast<double>(pictures.size(0));
  }
  out.mean_ssim = likeness / compared;
  return out;
}

}  // namespace tessera

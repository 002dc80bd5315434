#include "train/transform.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/key.hpp"
#include "base/text.hpp"
#include "train/optimizer.hpp"

namespace tessera {
namespace {

constexpr double kRate = 0.05, kMet = 1e-3, kVanished = 1e-3;
constexpr int kMostDraws = 4;  // of X': the first, and three more where the gradient vanished

/// Of the mean cross-entropy, in evaluation mode: dropout would match another network every time.
Tensor gradient_of(const Model& model, const Weights& at, const Tensor& x, const Tensor& y,
                   bool graph) {
  const auto w = at.w.detach().requires_grad_(true);
  const auto loss = loss_value(Loss::kCrossEntropy, model.forward({w, at.b}, x, Pass{}).logits, y);
  return torch::autograd::grad({loss}, {w}, {}, graph, graph)[0];
}

Tensor uniform(int64_t count, uint64_t key) {
  auto out = at::empty({count}, at::kFloat);
  Rng rng(key);
  for (int64_t i = 0; i < count; ++i) out.data_ptr<float>()[i] = static_cast<float>(rng.uniform());
  return out;
}

/// The search: pixels and logits of labels side by side in one vector z.
class Search {
 public:
  Search(const Model& model, const Weights& at, const Examples& batch, const PixelScale& scale,
         const TransformOptions& options, uint64_t key)
      : model_(model),
        at_(at),
        batch_(batch),
        scale_(scale),
        options_(options),
        key_(key),
        true_(batch.y.unsqueeze(1)),
        pixels_(scale.to_pixels(batch.x)),
        gradient_(gradient_of(model, at, batch.x, batch.y, false)),
        norm_(std::max(gradient_.norm().item<double>(), 1e-12)),
        side_(std::sqrt(static_cast<double>(batch.x[0].numel()))) {
    const at::NoGradGuard no_grad;
    classes_ = model.predict(at, batch.x.narrow(0, 0, 1)).size(1);
  }

  Virtual run();

 private:
  struct Terms {
    Tensor objective;
    double distance, label, gradient, relative, pixel_distance, length;
    bool met() const { return distance < kMet && label < kMet && gradient < kMet; }
  };
  Tensor drawn(int draw) const {
    return at::cat({uniform(pixels_.numel(), derive(key_, 0, draw)),
                    uniform(batch_.size() * classes_, derive(key_, 1))});
  }
  Tensor pixels_of(const Tensor& z) const {
    return z.narrow(0, 0, pixels_.numel()).view(pixels_.sizes());
  }
  Tensor labels_of(const Tensor& z) const {
    return z.slice(0, pixels_.numel()).view({batch_.size(), classes_}).softmax(1);
  }
  Terms terms(const Tensor& z) const;
  std::optional<DistanceBound> bound(const Tensor& x, const Tensor& y) const;

  const Model& model_;
  const Weights& at_;
  const Examples& batch_;
  const PixelScale& scale_;
  const TransformOptions& options_;
  uint64_t key_;
  Tensor true_, pixels_, gradient_;
  double norm_, side_;
  int64_t classes_ = 0;
};

Search::Terms Search::terms(const Tensor& z) const {
  const auto pixels = pixels_of(z), labels = labels_of(z);
  const double least = options_.distance * side_;
  const auto moved = (pixels - pixels_).flatten(1).norm(2, 1);
  const auto distance = least > 0 ? (least - moved).relu().mean() / least : moved.sum() * 0;
  const auto label = (labels.gather(1, true_).squeeze(1) - labels.amin(1)).mean();
  const auto g = gradient_of(model_, at_, scale_.to_inputs(pixels), labels, true);
  const auto apart = (g - gradient_).norm();
  const auto gradient = (apart - options_.gradient * norm_).relu() / norm_;
  return {options_.distance_weight * distance + options_.label_weight * label +
              options_.gradient_weight * gradient,
          distance.item<double>(),
          label.item<double>(),
          gradient.item<double>(),
          apart.item<double>() / norm_,
          moved.mean().item<double>() / side_,
          g.detach().norm().item<double>()};
}

Virtual Search::run() {
  TrainOptions adam;
  adam.optimizer = "adam";
  Optimizer optimizer(adam, kRate);
  int draws = 1;
  Tensor z = drawn(0), best;
  Virtual out;
  for (int64_t i = 0; i <= options_.iterations; ++i) {
    const auto leaf = z.detach().requires_grad_(true);
    const auto here = terms(leaf);
    const double value = here.objective.item<double>();
    if (i == 0) out.at_start = value;
    const bool vanished = here.length < kVanished * norm_;
    if (!best.defined() || (!vanished && value < out.objective)) {
      best = z.clone();
      out.objective = vanished ? INFINITY : value;
      out.gradient_distance = here.relative, out.pixel_distance = here.pixel_distance;
      out.label_term = here.label;
    }
    out.iterations = i;
    if (here.met() || i == options_.iterations) break;
    if (vanished) {
      if (draws == kMostDraws) break;
      const auto fresh = drawn(draws++);
      z.narrow(0, 0, pixels_.numel()).copy_(fresh.narrow(0, 0, pixels_.numel()));
      optimizer = Optimizer(adam, kRate);
      continue;
    }
    auto slope = torch::autograd::grad({here.objective}, {leaf})[0];
    optimizer.step(z, slope);
    z.narrow(0, 0, pixels_.numel()).clamp_(0, 1);
  }
  const at::NoGradGuard no_grad;
  out.x = scale_.to_inputs(pixels_of(best)).contiguous();
  out.y = labels_of(best);
  out.bound = bound(out.x, out.y);
  return out;
}

// Its own pass for every sample: a diagnostic, once.
std::optional<DistanceBound> Search::bound(const Tensor& x, const Tensor& y) const {
  const at::AutoGradMode graph(true);
  const auto& slices = model_.layout().slices();
  const auto m = static_cast<double>(batch_.size());
  if (slices.size() < 2 || slices[0].shape.size() != 2 || slices[1].shape.size() != 1 ||
      slices[0].shape[1] != batch_.x[0].numel())
    return std::nullopt;
  const auto outputs = [&](const Tensor& inputs, const Tensor& labels) {
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < batch_.size(); ++i) {
      const auto g =
          gradient_of(model_, at_, inputs.narrow(0, i, 1), labels.narrow(0, i, 1), false);
      rows.push_back(model_.layout().views(g)[1] / m);
    }
    return at::stack(rows).to(at::kDouble);
  };
  const auto weight = [&](const Tensor& inputs, const Tensor& labels) {
    return model_.layout().views(gradient_of(model_, at_, inputs, labels, false))[0].to(
        at::kDouble);
  };
  const auto norm = [](const Tensor& t) { return t.norm().item<double>(); };
  const auto before = outputs(batch_.x, batch_.y), after = outputs(x, y);
  const double apart = norm(after - before), most = std::max(norm(before), norm(after));
  const double weights = norm(weight(x, y) - weight(batch_.x, batch_.y));
  const auto inputs = batch_.x.to(at::kDouble);
  return DistanceBound{2 * (weights - norm(inputs) * apart) / (2 * most + apart),
                       norm(x.to(at::kDouble) - inputs)};
}

}  // namespace

Virtual transformed(const Model& model, const Weights& at, const Examples& batch,
                    const PixelScale& scale, const TransformOptions& options, uint64_t key) {
  if (batch.size() < TransformOptions::kLeastBatch)
    throw std::invalid_argument(
        fmt::format("guard 'transform' needs batches of at least {} samples, and this one has {}",
                    TransformOptions::kLeastBatch, batch.size()));
  return Search(model, at, batch, scale, options, key).run();
}

}  // namespace tessera

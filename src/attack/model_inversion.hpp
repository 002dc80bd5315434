// What a model itself shows of its classes, without any gradient or sample: pictures it is surest
// of. White box: the model can be differentiated.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "attack/image_metrics.hpp"
#include "attack/pixels.hpp"
#include "base/options.hpp"
#include "data/client_data.hpp"
#include "model/model.hpp"

namespace tessera {

struct ModelInversionOptions {
  int64_t steps = 1000, blur_every = 100;
  double lr = 0.05, norm = 1e-3, tv = 1e-2, blur = 0.5;
  static void options(auto& o, auto&& f) {
    f(between("steps", 1, 1e6, "Adam steps"), o.steps);
    f(between("blur_every", 1, 1e6, "steps between two blurs"), o.blur_every);
    f(above("lr", 0, "learning rate of Adam, in pixels"), o.lr);
    f(at_least("norm", 0, "weight of the pixels' squared norm"), o.norm);
    f(at_least("tv", 0, "weight of the total variation"), o.tv);
    f(above("blur", 0, "deviation of the blur in pixels"), o.blur);
  }
};

/// A model that is attacked: its samples are pictures {C, H, W}.
struct InvertedModel {
  const Model& model;
  Weights at;
  std::vector<int64_t> sample;
  PixelScale scale;
  std::function<bool()> stop = {};  // asked at every step; true: ends early
};

/// For each of the labels (int64 [n]) a picture [n, C, H, W] in [0, 1] that makes log p_label −
/// norm |x|² − tv TV(x) large, by Adam from noise, blurred on the way.
Tensor invert_model(const InvertedModel& target, const Tensor& labels,
                    const ModelInversionOptions& options, uint64_t key);

/// Against the training pictures (pixels): what an evaluator trained elsewhere takes the
/// reconstructions for, how like the mean picture of their class they are, and how near the nearest
/// training picture is (root of the mean squared difference).
struct ModelInversionScore {
  double evaluator_accuracy = 0;  // in 0 … 1
  double mean_ssim = 0;           // over labels that the training pictures have; NaN without
  double nearest = 0;             // mean over reconstructions
};
ModelInversionScore score_model_inversion(const Examples& reconstructed,
                                          const InvertedModel& evaluator, const Examples& training,
                                          const SsimWindow& window = {});

}  // namespace tessera

// Training on one client: the loop every method shares.
#pragma once

#include <functional>
#include <optional>

#include "data/client_data.hpp"
#include "model/model.hpp"
#include "train/site.hpp"
#include "train/train_options.hpp"

namespace tessera {

/// Changes the gradient g [d] in place before the step; w [d] is the current point.
using GradientHook = std::function<void(const Tensor& w, Tensor& g)>;

/// Instead of batch_gradient: fills g [d] for a batch at these weights, whose buffers it may
/// replace; returns the loss to report. `key` is for dropout.
using BatchGradient =
    std::function<double(Weights& at, const Examples& batch, uint64_t key, Tensor& g)>;

/// How a method departs from plain training; the defaults are plain training.
struct Job {
  Part part = Part::kTrain;
  int64_t epochs = 0;          // 0: what the options say
  BatchGradient gradient;      // of the mean of options.loss_on(site.data)
  GradientHook hook;           // none
  std::optional<Tensor> only;  // bool [d]: coordinates that may move; the rest stay as they are
  int64_t max_steps = 0;       // 0: no limit
};

struct SgdResult {
  Weights weights;
  double loss = 0;  // mean over all steps, as seen before each step; NaN with options.privacy
  int64_t steps = 0;
};

/// Mini-batch training from `start`, which is left as it is. A new random order every epoch; the
/// last batch may be smaller. A part without samples returns `start` and no steps. With
/// options.privacy the steps are those of train/sample_privacy.hpp, with options.transform those of
/// train/virtual_steps.hpp; a job with a gradient of its own then throws std::logic_error.
SgdResult local_sgd(const Weights& start, const Site& site, const TrainOptions& options,
                    const Job& job = {});

/// Gradient of the mean loss over a whole part, in chunks of `chunk` samples; weights unchanged
/// (running statistics are those after one training pass).
struct FullGradient {
  Tensor grad;     // [d]
  Tensor buffers;  // [d_b]
  double loss = 0;
};
FullGradient full_gradient(const Weights& at, const Site& site, Loss loss, Part part,
                           int64_t chunk = 256);

/// Mean loss over a part in evaluation mode; NaN without samples.
double part_loss(const Model& model, const Weights& at, const ClientData& data, Part part,
                 Loss loss);

/// Loss and flat gradient of one batch: hand-written where the model has it, else autograd.
double batch_gradient(const Model& model, Weights& at, const Examples& batch, Loss loss,
                      uint64_t key, Tensor& grad);

}  // namespace tessera

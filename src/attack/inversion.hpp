// Pictures from gradients by optimisation: those whose gradient looks like the one that was seen.
//
// DLG (Zhu et al., NeurIPS 2019), iDLG (Zhao et al., 2020) and the cosine attack of Geiping et al.
// (NeurIPS 2020). All work through one gradient or through several local steps of plain SGD, on
// whole uploads or parts of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "attack/pixels.hpp"
#include "base/options.hpp"
#include "model/model.hpp"

namespace tessera {

/// What the victim is known to have done: `epochs` passes over its samples in batches of `batch`,
/// in one and the same order, by plain SGD. That the attacker knows the order is its best case.
struct LocalSteps {
  int64_t epochs = 1, batch = 1;
  double lr = 0.01;
};

/// What an attacker saw, and what it knows. Works in the dtype of at.w: float64 where gradients of
/// early layers are tiny. Borrowed; valid for the duration of a call.
struct Observation {
  const Model& model;
  Weights at;                   // what the victim began with
  Tensor seen;                  // [d]: a gradient, or with `steps` at.w − w of the upload
  Tensor uploaded;              // bool [d]: what of it travelled; undefined: all
  int64_t samples = 1;          // in the victim's batch
  std::vector<int64_t> sample;  // shape of one
  PixelScale scale;             // how pixels become inputs
  std::optional<LocalSteps> steps = {};  // none: `seen` is one gradient over all samples
  Loss loss = Loss::kCrossEntropy;
  std::function<bool()> stop = {};  // asked at every step; true: what was found so far is taken
};

/// What the victim would have sent for these inputs [m, …] and labels: int64 [m], or shares of
/// classes [m, classes] (cross-entropy only). As Observation::seen, and differentiable.
Tensor simulated_upload(const Observation& observation, const Tensor& inputs, const Tensor& labels);

struct Inverted {
  Tensor pixels;         // [m, …] in [0, 1], detached
  Tensor labels;         // int64 [m]
  double objective = 0;  // its final value, of the best restart
  int64_t steps = 0;     // it took, of the best restart
};

struct DlgOptions {
  int64_t iterations = 300, restarts = 1;
  static void options(auto& o, auto&& f) {
    f(between("iterations", 1, 1e6, "L-BFGS iterations"), o.iterations);
    f(between("restarts", 1, 1000, "starts from other noise; the best is kept"), o.restarts);
  }
};
/// Least squared distance of gradients, by L-BFGS from N(0, 1). Without labels (undefined) these
/// are searched along with the pictures (DLG); given, it is iDLG. For smooth networks.
Inverted invert_by_distance(const Observation& observation, const Tensor& labels,
                            const DlgOptions& options, uint64_t key);

struct GeipingOptions {
  int64_t iterations = 4800, restarts = 1;
  double lr = 0.1, tv = 0.1;
  bool sign = false;
  static void options(auto& o, auto&& f) {
    f(between("iterations", 1, 1e6, "Adam steps; the rate falls at 3/8, 5/8 and 7/8 of them"),
      o.iterations);
    f(between("restarts", 1, 1000, "starts from other noise; the best is kept"), o.restarts);
    f(above("lr", 0, "learning rate of Adam, in pixels"), o.lr);
    f(at_least("tv", 0, "weight of the total variation"), o.tv);
    f(any("sign", "step by the sign of the gradient alone"), o.sign);
  }
};
/// 1 − cosine of all gradients jointly + tv · TV of the pixels, by Adam with a projection to the
/// box of pixels after each step. Labels as above.
Inverted invert_by_angle(const Observation& observation, const Tensor& labels,
                         const GeipingOptions& options, uint64_t key);

}  // namespace tessera

// Gaussian-process classifiers over the features of a network (pFedGP; docs/methods.md §7.3).
// Everything is float64 and can be differentiated with respect to the features, those that are
// conditioned on and those that are asked about.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "base/options.hpp"

namespace tessera {

using at::Tensor;

/// k(a, b) = scale · exp(−||a − b||² / (2 length²)); `jitter` joins the diagonal of what is solved.
struct Kernel {
  double scale = 8, length = 1, jitter = 1e-3;

  static void options(auto& o, auto&& f) {
    f(above("scale", 0, "variance of the Gaussian process's kernel"), o.scale);
    f(above("length", 0, "length scale of the kernel; features have norm 1"), o.length);
    f(above("jitter", 0, "added to the kernel matrix's diagonal"), o.jitter);
  }

  Tensor between(const Tensor& a, const Tensor& b) const;  // [n, k], [m, k] → [n, m]
  Tensor among(const Tensor& z) const;                     // [n, n], with jitter
};

/// Features [n, k] as float64 rows of norm 1; a row of zeros stays one.
Tensor unit_rows(const Tensor& features);

/// Log-probabilities [m, classes] of points [m, k].
using Classifier = std::function<Tensor(const Tensor& z)>;

/// Regression on the log-normal approximation of Dirichlet counts (Milios et al., NeurIPS 2018): a
/// process per class around the mean of its targets, with noise by sample; the softmax of the
/// posterior means. Closed form. z [n, k], y int64 [n], n >= 1. A class without samples stands at
/// its targets' constant, far below the others.
Classifier dirichlet_gp(const Kernel& kernel, const Tensor& z, const Tensor& y, int64_t classes);

}  // namespace tessera

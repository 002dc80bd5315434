// Class means and within-class covariance of a federation's features, and the linear discriminant
// (LDA) that a client makes of them and of its own samples (docs/methods.md §12.2).
#pragma once

#include <optional>

#include "data/client_data.hpp"
#include "model/model.hpp"

namespace tessera {

/// Counts [classes] and sums of features [classes, p] of some samples, float64. p = 0: counts only.
struct ClassSums {
  Tensor counts, sums;
  static void fields(auto& m, auto&& f) { f("counts", m.counts), f("sums", m.sums); }
};

/// What all samples of a federation have in common, float32: class shares pi [classes], class means
/// [classes, p], and the covariance within classes [p, p], or its diagonal [p]; and where it was
/// asked for, the shares of classes after each bin of the last value [bins, classes].
struct FeatureMoments {
  Tensor pi, means, within;
  std::optional<Tensor> follows = std::nullopt;
  static void fields(auto& m, auto&& f) {
    f("pi", m.pi), f("means", m.means), f("within", m.within), f("follows", m.follows);
  }
};

/// How many numbers there are, and whether only the diagonal of the covariance is sent.
struct MomentShape {
  int64_t classes = 0, p = 0;
  bool diagonal = false;

  /// Of a message: counts, sums, and sum of phi phi^T (its upper triangle, or its diagonal).
  int64_t numel() const;
  /// Equal classes, means of zero and a covariance of one: before anything is known.
  FeatureMoments unknown() const;
};

/// What is seen of a network's features [n, width]: nothing (p = 0), all of them, or p directions
/// that everybody has in common. Sums along common directions can be added; everybody's own leading
/// ones could not.
struct FeatureMap {
  int64_t p = 0;
  Tensor directions = {};  // [p, width]; undefined: all
  Tensor of(const Tensor& features) const;
};

/// Features [n, p] of the training samples at `g`, and their labels [n]; n may be 0.
Examples training_features(const Model& model, const Weights& g, const ClientData& data,
                           const FeatureMap& map);

/// `phi` are features and their labels, as training_features makes them. p columns are used.
ClassSums class_sums(const Examples& phi, const MomentShape& shape);
/// The message of a client, float64 [numel()]: sums over its samples, so that messages may be
/// added.
Tensor moment_sums(const Examples& phi, const MomentShape& shape);
/// What the sum of messages says. A class that nobody has gets the mean of all samples.
FeatureMoments moments_of(const Tensor& sums, const MomentShape& shape);

/// `within` as it is used: a tenth of it replaced by its mean variance on the diagonal; of features
/// that never vary, the unit matrix. float64, like all here.
Tensor ridged(const Tensor& within);
/// covariance^-1 · rhs, rhs [p, n]; by the diagonal alone where it cannot be inverted (rounding).
Tensor solved(const Tensor& covariance, const Tensor& rhs);

/// Scores of features: phi · slope + offset, one column per class. float64.
struct Discriminant {
  Tensor slope, offset;  // [p, classes], [classes]
  Tensor scores(const Tensor& phi) const;
};

/// The client's class means are drawn towards the federation's as if it had `k` more samples of
/// each class.
Discriminant discriminant(const FeatureMoments& all, const ClassSums& own, double k);

}  // namespace tessera

// Principal components of a few hundred points, without torch.
#pragma once

#include <cstddef>
#include <vector>

namespace tessera {

/// Directions of greatest variance.
struct Pca {
  std::vector<double> mean;
  std::vector<std::vector<double>> axes;  // unit vectors, by falling variance
  std::vector<double> share;  // of the whole variance, one an axis; 0 where there is none

  /// Coordinates of a point along the axes.
  std::vector<double> project(const std::vector<double>& point) const;
};

/// The first `components` of the points, all finite and of one length >= 1; at least one point.
/// Deterministic, signs too: the largest entry of an axis is positive. Where there are fewer
/// directions than components, the axes beyond are zero. Takes time cubic in the smaller of points
/// and dimensions.
Pca principal_components(const std::vector<std::vector<double>>& points, size_t components);

/// Eigenvalues of a symmetric matrix in falling order, vectors[k] belonging to values[k] (Jacobi).
struct Eigen {
  std::vector<double> values;
  std::vector<std::vector<double>> vectors;
};
Eigen symmetric_eigen(std::vector<std::vector<double>> matrix);

}  // namespace tessera

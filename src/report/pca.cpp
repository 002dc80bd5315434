#include "report/pca.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera {
namespace {

using Vector = std::vector<double>;
using Square = std::vector<Vector>;

constexpr int kSweeps = 60;  // Jacobi converges quadratically: ten are many

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Turns rows and columns p and q so that their common entry vanishes; `basis` turns along.
void rotate(Square& m, Square& basis, size_t p, size_t q) {
  const double theta = (m[q][q] - m[p][p]) / (2 * m[p][q]);
  const double t = (theta >= 0 ? 1.0 : -1.0) / (std::abs(theta) + std::hypot(theta, 1.0));
  const double c = 1 / std::hypot(t, 1.0), s = t * c;
  const auto turn = [c, s](double& a, double& b) {
    const double old = a;
    a = c * old - s * b, b = s * old + c * b;
  };
  for (auto& row : m) turn(row[p], row[q]);
  for (size_t k = 0; k < m.size(); ++k) turn(m[p][k], m[q][k]);
  for (size_t k = 0; k < m.size(); ++k) turn(basis[p][k], basis[q][k]);
}

Square covariance_of(const Square& centred, size_t dimensions) {
  Square out(dimensions, Vector(dimensions, 0));
  for (const auto& point : centred)
    for (size_t i = 0; i < dimensions; ++i)
      for (size_t j = 0; j < dimensions; ++j) out[i][j] += point[i] * point[j];
  return out;
}

Square gram_of(const Square& centred) {
  Square out(centred.size(), Vector(centred.size()));
  for (size_t i = 0; i < centred.size(); ++i)
    for (size_t j = 0; j <= i; ++j) out[i][j] = out[j][i] = dot(centred[i], centred[j]);
  return out;
}

// Unit length, and the entry of largest size (the first of equals) positive; zero stays zero.
void normalize(Vector& axis) {
  const auto largest = *std::max_element(axis.begin(), axis.end(), [](double a, double b) {
    return std::abs(a) < std::abs(b) * (1 - 1e-12);  // equal but for rounding is equal
  });
  const double length = std::sqrt(dot(axis, axis));
  if (length == 0) return;
  for (auto& value : axis) value /= largest < 0 ? -length : length;
}

}  // namespace

Eigen symmetric_eigen(Square m) {
  const size_t n = m.size();
  Square basis(n, Vector(n, 0));
  for (size_t i = 0; i < n; ++i) basis[i][i] = 1;
  double whole = 0;
  for (const auto& row : m) whole += dot(row, row);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double off = 0;
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q) off += m[p][q] * m[p][q];
    if (off <= 1e-30 * whole) break;
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q)
        if (m[p][q] != 0) rotate(m, basis, p, q);
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return m[a][a] > m[b][b]; });
  Eigen out;
  for (const size_t k : order) out.values.push_back(m[k][k]), out.vectors.push_back(basis[k]);
  return out;
}

Pca principal_components(const std::vector<Vector>& points, size_t components) {
  const size_t dimensions = points.front().size();
  Pca out;
  out.mean.assign(dimensions, 0);
  for (const auto& point : points)
    for (size_t i = 0; i < dimensions; ++i)
      out.mean[i] += point[i] / static_cast<double>(points.size());
  auto centred = points;
  double variance = 0;
  for (auto& point : centred) {
    for (size_t i = 0; i < dimensions; ++i) point[i] -= out.mean[i];
    variance += dot(point, point);
  }
  // XᵀX and XXᵀ have the same eigenvalues; the smaller is enough.
  const bool few_points = points.size() < dimensions;
  const auto eigen =
      symmetric_eigen(few_points ? gram_of(centred) : covariance_of(centred, dimensions));
  for (size_t k = 0; k < components; ++k) {
    const bool real = k < eigen.values.size() && eigen.values[k] > 1e-12 * variance;
    Vector axis(dimensions, 0);
    if (real && !few_points) axis = eigen.vectors[k];
    if (real && few_points)
      for (size_t n = 0; n < centred.size(); ++n)
        for (size_t i = 0; i < dimensions; ++i) axis[i] += eigen.vectors[k][n] * centred[n][i];
    normalize(axis);
    out.axes.push_back(std::move(axis));
    out.share.push_back(real ? eigen.values[k] / variance : 0);
  }
  return out;
}

Vector Pca::project(const Vector& point) const {
  Vector out;
  for (const auto& axis : axes) {
    double sum = 0;
    for (size_t i = 0; i < mean.size(); ++i) sum += (point[i] - mean[i]) * axis[i];
    out.push_back(sum);
  }
  return out;
}

}  // namespace tessera

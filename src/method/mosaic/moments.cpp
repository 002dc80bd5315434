#include "method/mosaic/moments.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "method/mosaic/class_prior.hpp"

namespace tessera {
namespace {

constexpr double kLdaPrior = 0.5;  // samples by which class shares are drawn to the federation's
constexpr double kRidge = 0.1;     // share of the covariance that becomes spherical

Tensor upper_triangle(int64_t p) { return at::triu_indices(p, p, 0, at::kLong); }

}  // namespace

Tensor ridged(const Tensor& within) {
  const bool diagonal = within.dim() == 1;
  const auto variances = diagonal ? within : within.diagonal();
  const double mean = variances.numel() > 0 ? variances.mean().item<double>() : 0;
  if (!(mean > 0)) return diagonal ? at::ones_like(within) : at::eye(within.size(0), at::kDouble);
  auto out = (1 - kRidge) * within;
  (diagonal ? out : out.diagonal()).add_(kRidge * mean);
  return out;
}

Tensor solved(const Tensor& covariance, const Tensor& rhs) {
  if (covariance.dim() == 2) {
    const auto [factor, info] = at::linalg_cholesky_ex(covariance);
    if (info.item<int64_t>() == 0) return at::cholesky_solve(rhs, factor);
  }
  const auto variances = covariance.dim() == 2 ? covariance.diagonal() : covariance;
  return rhs / variances.unsqueeze(1);
}

int64_t MomentShape::numel() const {
  return classes + classes * p + (diagonal ? p : p * (p + 1) / 2);
}

FeatureMoments MomentShape::unknown() const {
  return {at::full({classes}, 1.0 / static_cast<double>(classes), at::kFloat),
          at::zeros({classes, p}), diagonal ? at::ones({p}) : at::eye(p)};
}

Tensor FeatureMap::of(const Tensor& features) const {
  const auto flat = features.flatten(1);
  return directions.defined() ? flat.mm(directions.t()) : flat;
}

Examples training_features(const Model& model, const Weights& g, const ClientData& data,
                           const FeatureMap& map) {
  constexpr int64_t kChunk = 256;
  const at::NoGradGuard no_grad;
  const int64_t n = data.train_size();
  Examples out{at::empty({n, map.p}), at::empty({n}, at::kLong)};
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t size = std::min(kChunk, n - begin);
    const auto some = data.range(Part::kTrain, begin, begin + size);
    out.y.narrow(0, begin, size).copy_(some.y);
    if (map.p > 0)
      out.x.narrow(0, begin, size).copy_(map.of(model.forward(g, some.x, Pass{}).features));
  }
  return out;
}

ClassSums class_sums(const Examples& phi, const MomentShape& shape) {
  const auto of_class = at::one_hot(phi.y, shape.classes).to(at::kDouble);
  return {of_class.sum(0), of_class.t().mm(phi.x.to(at::kDouble))};
}

Tensor moment_sums(const Examples& phi, const MomentShape& shape) {
  const auto own = class_sums(phi, shape);
  const auto x = phi.x.to(at::kDouble);
  const auto at = upper_triangle(shape.p);
  const auto scatter = shape.diagonal ? x.square().sum(0) : x.t().mm(x).index({at[0], at[1]});
  return at::cat({own.counts, own.sums.flatten(), scatter});
}

FeatureMoments moments_of(const Tensor& sums, const MomentShape& shape) {
  const auto [c, p, diagonal] = shape;
  const auto all = sums.to(at::kDouble);
  const auto counts = all.narrow(0, 0, c).clamp_min(0);
  const auto by_class = all.narrow(0, c, c * p).view({c, p});
  const double n = counts.sum().item<double>();
  if (!(n > 0)) return shape.unknown();
  const auto there = counts.gt(0).unsqueeze(1);
  const auto means =
      at::where(there, by_class / counts.clamp_min(1e-12).unsqueeze(1), by_class.sum(0) / n);
  // sum phi phi^T − sum n_c m_c m_c^T is the scatter around the class means.
  const auto scatter = all.slice(0, c + c * p);
  const auto weighted = means * counts.unsqueeze(1);
  Tensor within;
  if (diagonal) {
    within = ((scatter - (weighted * means).sum(0)) / n).clamp_min(0);
  } else {
    const auto at = upper_triangle(p);
    auto whole = at::zeros({p, p}, at::kDouble);
    whole.index_put_({at[0], at[1]}, scatter);
    whole = whole + whole.triu(1).t();
    within = (whole - weighted.t().mm(means)) / n;
  }
  return {(counts / n).to(at::kFloat), means.to(at::kFloat), within.to(at::kFloat)};
}

Tensor Discriminant::scores(const Tensor& phi) const {
  return phi.to(at::kDouble).mm(slope) + offset;
}

Discriminant discriminant(const FeatureMoments& all, const ClassSums& own, double k) {
  const auto shared = all.means.to(at::kDouble);
  const auto means = (own.sums + k * shared) / (own.counts + k).unsqueeze(1);
  const auto slope = solved(ridged(all.within.to(at::kDouble)), means.t());
  const auto prior = log_own_shares(own.counts, all.pi.to(at::kDouble), kLdaPrior);
  return {slope, prior - (means * slope.t()).sum(1) / 2};
}

}  // namespace tessera

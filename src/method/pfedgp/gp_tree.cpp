#include "method/pfedgp/gp_tree.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "method/pfedgp/polya_gamma.hpp"
#include "tensor/cluster.hpp"

namespace tessera {
namespace {

// Nodes and weights of Gauss and Hermite for the standard normal (Golub and Welsch).
struct Quadrature {
  Tensor at, weights;  // [q]
};
Quadrature hermite() {
  constexpr int64_t kNodes = 16;
  const auto beside = at::arange(1, kNodes, at::kDouble).sqrt();
  const auto [values, vectors] = at::linalg_eigh(beside.diag(1) + beside.diag(-1));
  return {values, vectors[0].square()};
}

// draw(chain's stream, place) for every chain and place: [chains, n].
template <class Draw>
Tensor each(std::vector<Rng>& chains, int64_t n, Draw draw) {
  auto out = at::empty({static_cast<int64_t>(chains.size()), n}, at::kDouble);
  auto* to = out.data_ptr<double>();
  int64_t place = 0;
  for (auto& rng : chains)
    for (int64_t i = 0; i < n; ++i, ++place) to[place] = draw(rng, place);
  return out;
}

// Cholesky factor of 1 + s K s for s [chains, n]: its eigenvalues are at least 1, however small the
// auxiliary variables are.
Tensor factor_of(const Tensor& k, const Tensor& s) {
  return at::linalg_cholesky(s.unsqueeze(2) * k * s.unsqueeze(1) + at::eye(k.size(0), k.options()));
}

// (K + diag(1/ω))⁻¹ times the rows of x / s: s (1 + s K s)⁻¹ x, for x [chains, n].
Tensor solved(const Tensor& factor, const Tensor& s, const Tensor& x) {
  return s * at::cholesky_solve(x.unsqueeze(2), factor).squeeze(2);
}

// ω [chains, n] after alternating f ~ N(Σκ, Σ) and ω ~ PG(1, f). f is drawn without a root of Σ: a
// draw of the prior, moved by κ, corrected by how far it is from a draw of the data.
Tensor gibbs_samples(const Tensor& k, const Tensor& kappa, const Gibbs& gibbs, uint64_t key) {
  const int64_t n = k.size(0);
  std::vector<Rng> chains;
  for (int64_t chain = 0; chain < gibbs.chains; ++chain) chains.emplace_back(derive(key, chain));
  const auto normal = [](Rng& rng, int64_t) { return rng.normal(); };
  const auto root = at::linalg_cholesky(k), pull = k.mv(kappa);
  auto omega = each(chains, n, [](Rng& rng, int64_t) { return polya_gamma(rng, 0); });
  for (int64_t step = 0; step < gibbs.steps; ++step) {
    const auto s = omega.sqrt();
    const auto prior = each(chains, n, normal).mm(root.t()) + pull;
    const auto residual = s * prior + each(chains, n, normal);
    const auto f = (prior - solved(factor_of(k, s), s, residual).mm(k)).contiguous();
    const auto* at = f.data_ptr<double>();
    omega = each(chains, n, [at](Rng& rng, int64_t i) { return polya_gamma(rng, at[i]); });
  }
  return omega;
}

/// log P(left) and log P(right) at a fork, [m] each.
struct Sides {
  Tensor left, right;
};

/// One fork's process given its samples z [n, k], which are left (true) or not.
class BinaryGp {
 public:
  BinaryGp(const Kernel& kernel, const Gibbs& gibbs, const Tensor& z, const Tensor& left,
           uint64_t key)
      : kernel_(kernel), z_(z), quadrature_(hermite()) {
    if (z.size(0) == 0) return;
    const auto kappa = left.to(at::kDouble) - 0.5;
    const auto k = kernel.among(z);
    s_ = gibbs_samples(k.detach(), kappa, gibbs, key).sqrt();
    factor_ = factor_of(k, s_);
    weights_ = kappa - solved(factor_, s_, s_ * k.mv(kappa));
  }

  Sides operator()(const Tensor& at) const {
    if (z_.size(0) == 0) {
      const auto even = at::full({at.size(0)}, std::log(0.5), at.options());
      return {even, even};
    }
    constexpr double kLeast = 1e-12;  // of a variance that rounding may take below 0
    const auto k = kernel_.between(at, z_);
    const auto mean = weights_.mm(k.t());  // [chains, m]
    const auto half = at::linalg_solve_triangular(factor_, s_.unsqueeze(2) * k.t(), false);
    const auto variance = (kernel_.scale - half.square().sum(1)).clamp_min(kLeast);
    const auto f = mean.unsqueeze(2) + variance.sqrt().unsqueeze(2) * quadrature_.at;
    const auto expected = [&](const Tensor& side) {
      return side.sigmoid().matmul(quadrature_.weights).mean(0).log();
    };
    return {expected(f), expected(-f)};
  }

 private:
  Kernel kernel_;
  Tensor z_;
  Quadrature quadrature_;
  Tensor s_, weights_, factor_;  // √ω [chains, n], (K + 1/ω)⁻¹ κ/ω, Cholesky of 1 + s K s
};

Tensor is_any_of(const Tensor& y, const std::vector<int64_t>& classes) {
  return at::isin(y, at::tensor(classes, at::kLong));
}

// [classes]: 1 at those named.
Tensor indicator(int64_t classes, const std::vector<int64_t>& named) {
  return at::zeros({classes}, at::kDouble).index_fill_(0, at::tensor(named, at::kLong), 1);
}

}  // namespace

ClassTree class_tree(const Tensor& z, const Tensor& y, uint64_t key) {
  const auto present = std::get<0>(at::_unique(y, /*sorted=*/true));
  const auto* from = present.data_ptr<int64_t>();
  ClassTree tree{{from, from + present.numel()}, {}};
  std::vector<std::vector<int64_t>> open{tree.classes};
  for (size_t next = 0; next < open.size(); ++next) {
    const auto group = open[next];
    if (group.size() < 2) continue;
    std::vector<Tensor> means;
    for (const int64_t c : group)
      means.push_back(z.detach().index_select(0, (y == c).nonzero().squeeze(1)).mean(0));
    const auto labels = kmeans(at::stack(means), 2, derive(key, next));
    Fork fork;
    for (size_t i = 0; i < group.size(); ++i)
      (labels[i] == 0 ? fork.left : fork.right).push_back(group[i]);
    open.push_back(fork.left), open.push_back(fork.right);
    tree.forks.push_back(std::move(fork));
  }
  return tree;
}

Classifier tree_gp(const Kernel& kernel, const Gibbs& gibbs, const ClassTree& tree, const Tensor& z,
                   const Tensor& y, int64_t classes, uint64_t key) {
  constexpr double kOutside = 1e-6;
  struct Node {
    BinaryGp gp;
    Tensor left, right;  // [classes]
  };
  std::vector<Node> nodes;
  for (const auto& [left, right] : tree.forks) {
    const auto goes_left = is_any_of(y, left);
    const auto rows = (goes_left | is_any_of(y, right)).nonzero().squeeze(1);
    nodes.push_back({{kernel, gibbs, z.index_select(0, rows), goes_left.index_select(0, rows),
                      derive(key, nodes.size())},
                     indicator(classes, left),
                     indicator(classes, right)});
  }
  const auto base = (1 - indicator(classes, tree.classes)) * std::log(kOutside);
  return [=](const Tensor& at) {
    auto out = base.expand({at.size(0), classes});
    for (const auto& node : nodes) {
      const auto sides = node.gp(at);
      out = out + sides.left.unsqueeze(1) * node.left + sides.right.unsqueeze(1) * node.right;
    }
    return out;
  };
}

}  // namespace tessera

#include "method/mosaic/groups.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace tessera {
namespace {

/// Mean distance between the members of two groups.
double mean_distance(const Tensor& distances, const std::vector<int64_t>& a,
                     const std::vector<int64_t>& b) {
  const auto rows = distances.index_select(0, at::tensor(a));
  return rows.index_select(1, at::tensor(b)).mean().item<double>();
}

using Members = std::vector<std::vector<int64_t>>;

/// The group nearest to the one at `self`, and how near.
std::pair<size_t, double> nearest_group(const Tensor& distances, const Members& groups,
                                        size_t self) {
  std::pair<size_t, double> out{self, std::numeric_limits<double>::infinity()};
  for (size_t other = 0; other < groups.size(); ++other) {
    if (other == self) continue;
    const double far = mean_distance(distances, groups[self], groups[other]);
    if (far < out.second) out = {other, far};
  }
  return out;
}

void join_groups(Members& groups, size_t into, size_t from) {
  groups[into].insert(groups[into].end(), groups[from].begin(), groups[from].end());
  groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(from));
}

}  // namespace

Tensor feature_shift(const ClassSums& own, const FeatureMoments& all) {
  const auto expected = own.counts.unsqueeze(1) * all.means.to(at::kDouble);
  return (own.sums - expected).sum(0) / own.counts.sum().clamp_min(1);
}

Tensor shift_distances(const Tensor& shifts, const Tensor& samples, const FeatureMoments& all) {
  const auto apart = [&](const Tensor& rows) {  // squared, [n, n]
    const auto product = rows.mm(solved(ridged(all.within.to(at::kDouble)), rows.t()));
    const auto own = product.diagonal();
    return own.unsqueeze(0) + own.unsqueeze(1) - product - product.t();
  };
  const auto there = all.pi.gt(0).nonzero().flatten();
  const auto c = there.numel();
  const auto classes = apart(all.means.to(at::kDouble).index_select(0, there));
  const double unit = c > 1 ? classes.sum().item<double>() / static_cast<double>(c * (c - 1)) : 0;
  const auto rare = samples.to(at::kDouble).clamp_min(1).reciprocal();
  const auto chance = static_cast<double>(shifts.size(1)) * (rare.unsqueeze(0) + rare.unsqueeze(1));
  const auto out = (apart(shifts) - chance).clamp_min(0) / std::max(unit, 1e-12);
  return out.nan_to_num(0, 0, 0).fill_diagonal_(0);
}

std::vector<int64_t> groups_by_distance(const Tensor& distances, double apart, int64_t least) {
  Members groups;
  for (int64_t i = 0; i < distances.size(0); ++i) groups.push_back({i});
  while (groups.size() > 1) {
    size_t first = 0;
    std::pair<size_t, double> best{0, std::numeric_limits<double>::infinity()};
    for (size_t i = 0; i < groups.size(); ++i)
      if (const auto found = nearest_group(distances, groups, i); found.second < best.second)
        first = i, best = found;
    if (best.second >= apart) break;
    join_groups(groups, std::min(first, best.first), std::max(first, best.first));
  }
  for (size_t i = 0; i < groups.size() && groups.size() > 1;) {
    if (std::ssize(groups[i]) >= least) {
      ++i;
      continue;
    }
    const auto into = nearest_group(distances, groups, i).first;
    join_groups(groups, std::min(i, into), std::max(i, into));
    i = 0;
  }
  for (auto& members : groups) std::sort(members.begin(), members.end());
  std::sort(groups.begin(), groups.end());
  std::vector<int64_t> out(static_cast<size_t>(distances.size(0)));
  for (size_t g = 0; g < groups.size(); ++g)
    for (const int64_t i : groups[g]) out[static_cast<size_t>(i)] = static_cast<int64_t>(g);
  return out;
}

}  // namespace tessera

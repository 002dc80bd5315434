#include "tensor/cluster.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>

#include "base/key.hpp"
#include "tensor/quantile.hpp"

namespace tessera {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();

// Rows of doubles; plain loops, since the sums must not depend on a library's blocking.
struct Points {
  std::vector<double> all;
  size_t n, m;
  explicit Points(const Tensor& t)
      : n(static_cast<size_t>(t.size(0))), m(static_cast<size_t>(t.size(1))) {
    const auto held = t.to(at::kDouble).contiguous();
    all.assign(held.data_ptr<double>(), held.data_ptr<double>() + held.numel());
  }
  Points(size_t rows, size_t columns) : all(rows * columns, 0.0), n(rows), m(columns) {}
  double* row(size_t i) { return all.data() + i * m; }
  const double* row(size_t i) const { return all.data() + i * m; }
};

double squared(const Points& a, size_t i, const Points& b, size_t j) {
  double sum = 0;
  for (size_t k = 0; k < a.m; ++k) {
    const double apart = a.row(i)[k] - b.row(j)[k];
    sum += apart * apart;
  }
  return sum;
}

Labels in_order(const Labels& labels) {
  std::map<int64_t, int64_t> names;
  Labels out;
  for (const int64_t label : labels)
    out.push_back(names.emplace(label, static_cast<int64_t>(names.size())).first->second);
  return out;
}

int64_t clusters_in(const Labels& labels) {
  return labels.empty() ? 0 : *std::max_element(labels.begin(), labels.end()) + 1;
}

Points centres_of(const Points& points, const Labels& labels, int64_t k) {
  Points out(static_cast<size_t>(k), points.m);
  std::vector<double> sizes(static_cast<size_t>(k), 0.0);
  for (size_t i = 0; i < points.n; ++i) {
    const auto c = static_cast<size_t>(labels[i]);
    ++sizes[c];
    for (size_t j = 0; j < points.m; ++j) out.row(c)[j] += points.row(i)[j];
  }
  for (size_t c = 0; c < out.n; ++c)
    for (size_t j = 0; j < out.m; ++j) out.row(c)[j] /= std::max(sizes[c], 1.0);
  return out;
}

// k-means++: each further centre is a point drawn in proportion to its squared distance.
Points seeded(const Points& points, int64_t k, Rng& rng) {
  Points out(static_cast<size_t>(k), points.m);
  std::vector<double> gap(points.n, kFar);
  size_t chosen = rng.below(points.n);
  for (size_t c = 0; c < out.n; ++c) {
    std::copy_n(points.row(chosen), points.m, out.row(c));
    double total = 0;
    for (size_t i = 0; i < points.n; ++i)
      total += gap[i] = std::min(gap[i], squared(points, i, out, c));
    double left = rng.uniform() * total;
    for (chosen = 0; chosen + 1 < points.n && left >= gap[chosen]; ++chosen) left -= gap[chosen];
  }
  return out;
}

struct Assigned {
  Labels labels;
  std::vector<double> gap;  // squared distance to the own centre
};

Assigned assign(const Points& points, const Points& centres) {
  Assigned out{Labels(points.n), std::vector<double>(points.n, kFar)};
  for (size_t i = 0; i < points.n; ++i)
    for (size_t c = 0; c < centres.n; ++c) {
      const double apart = squared(points, i, centres, c);
      if (apart < out.gap[i]) out.gap[i] = apart, out.labels[i] = static_cast<int64_t>(c);
    }
  std::vector<int64_t> sizes(centres.n, 0);
  for (const int64_t label : out.labels) ++sizes[static_cast<size_t>(label)];
  for (size_t c = 0; c < centres.n; ++c) {
    if (sizes[c] > 0) continue;
    // The farthest point of a cluster that can spare one.
    size_t far = points.n;
    for (size_t i = 0; i < points.n; ++i)
      if (sizes[static_cast<size_t>(out.labels[i])] > 1 &&
          (far == points.n || out.gap[i] > out.gap[far]))
        far = i;
    --sizes[static_cast<size_t>(out.labels[far])], ++sizes[c];
    out.labels[far] = static_cast<int64_t>(c), out.gap[far] = 0;
  }
  return out;
}

}  // namespace

Tensor embedding(const Tensor& gram) {
  const auto centred =
      gram - gram.mean(0, true) - gram.mean(1, true) + gram.mean();  // of points around their mean
  const auto [values, vectors] = at::linalg_eigh(centred);
  // What rounding leaves of zero eigenvalues is no dimension; gram() is good to about 1e-9.
  const auto kept = (values > 1e-12 * gram.diagonal().max()).nonzero().flatten();
  return vectors.index_select(1, kept) * values.index_select(0, kept).sqrt();
}

Labels kmeans(const Tensor& points, int64_t k, uint64_t key) {
  constexpr int kStarts = 20, kSteps = 300;
  const Points from(points);
  if (k < 1 || static_cast<size_t>(k) > from.n)
    throw std::invalid_argument("kmeans: k must lie between 1 and the number of points");
  Labels best;
  double best_spread = kFar;
  for (int start = 0; start < kStarts; ++start) {
    Rng rng(derive(key, start));
    auto now = assign(from, seeded(from, k, rng));
    for (int step = 0; step < kSteps; ++step) {
      auto next = assign(from, centres_of(from, now.labels, k));
      const bool settled = next.labels == now.labels;
      now = std::move(next);
      if (settled) break;
    }
    const double spread = std::accumulate(now.gap.begin(), now.gap.end(), 0.0);
    // By a margin: the same clusters found from another start differ by rounding alone.
    if (best.empty() || spread < best_spread * (1 - 1e-12))
      best_spread = spread, best = std::move(now.labels);
  }
  return in_order(best);
}

double neighbour_bandwidth(const Tensor& points) {
  const Points from(points);
  if (from.n < 2) return 0;
  const auto half = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(from.n)) / 2));
  const size_t most = std::min(std::max<size_t>(2, half), from.n - 1);
  std::vector<std::vector<double>> to_nearest(most + 1);  // [k]: distances to the k-th nearest
  for (size_t i = 0; i < from.n; ++i) {
    std::vector<double> apart;
    for (size_t j = 0; j < from.n; ++j)
      if (j != i) apart.push_back(std::sqrt(squared(from, i, from, j)));
    std::sort(apart.begin(), apart.end());
    for (size_t k = 1; k <= most; ++k) to_nearest[k].push_back(apart[k - 1]);
  }
  double band = quantile(to_nearest[std::min<size_t>(2, most)], 0.5);
  for (size_t k = 3; k <= most; ++k) {
    const double next = quantile(to_nearest[k], 0.5);
    if (next > 2 * band) break;
    band = next;
  }
  return band;
}

Labels mean_shift(const Tensor& points, double bandwidth) {
  constexpr int kSteps = 300;
  const Points from(points);
  if (from.n < 2) return Labels(from.n, 0);
  const double band = bandwidth > 0 ? bandwidth : neighbour_bandwidth(points);

  Points modes = from;
  std::vector<double> mean(from.m);
  for (size_t i = 0; i < from.n; ++i) {
    for (int step = 0; step < kSteps && band > 0; ++step) {
      std::fill(mean.begin(), mean.end(), 0.0);
      double total = 0, moved = 0;
      for (size_t j = 0; j < from.n; ++j) {
        const double weight = std::exp(-squared(modes, i, from, j) / (2 * band * band));
        total += weight;
        for (size_t c = 0; c < from.m; ++c) mean[c] += weight * from.row(j)[c];
      }
      for (size_t c = 0; c < from.m; ++c) {
        const double next = mean[c] / total;
        moved += (next - modes.row(i)[c]) * (next - modes.row(i)[c]);
        modes.row(i)[c] = next;
      }
      if (moved < 1e-12 * band * band) break;
    }
  }
  Labels labels(from.n);
  std::vector<size_t> firsts;
  for (size_t i = 0; i < from.n; ++i) {
    const auto same = std::find_if(firsts.begin(), firsts.end(), [&](size_t first) {
      return squared(modes, i, modes, first) <= band * band / 4;
    });
    labels[i] = same - firsts.begin();
    if (same == firsts.end()) firsts.push_back(i);
  }
  return labels;
}

Labels joined(Labels labels, const Tensor& points, int64_t least) {
  const Points from(points);
  for (;;) {
    labels = in_order(labels);
    const int64_t k = clusters_in(labels);
    std::vector<int64_t> sizes(static_cast<size_t>(k), 0);
    for (const int64_t label : labels) ++sizes[static_cast<size_t>(label)];
    const auto smallest = std::min_element(sizes.begin(), sizes.end());
    if (k < 2 || *smallest >= least) return labels;
    const auto small = static_cast<size_t>(smallest - sizes.begin());
    const auto centres = centres_of(from, labels, k);
    size_t nearest = small;
    double gap = kFar;
    for (size_t c = 0; c < centres.n; ++c)
      if (c != small && squared(centres, small, centres, c) < gap)
        gap = squared(centres, small, centres, c), nearest = c;
    for (auto& label : labels)
      if (label == static_cast<int64_t>(small)) label = static_cast<int64_t>(nearest);
  }
}

int64_t nearest_cluster(const Labels& labels, const Tensor& to_point, const Tensor& between) {
  const auto far = to_point.to(at::kDouble).contiguous();
  const auto own = at::tensor(labels, at::kLong);
  int64_t best = 0;
  double gap = kFar;
  for (int64_t c = 0; c < clusters_in(labels); ++c) {
    const auto members = (own == c).nonzero().flatten();
    // ||x − centre||² = mean ||x − x_j||² − half the mean squared distance among the members.
    const auto inner = between.index_select(0, members).index_select(1, members);
    const double apart = (far.index_select(0, members).mean() - inner.mean() / 2).item<double>();
    if (apart < gap) gap = apart, best = c;
  }
  return best;
}

std::vector<int64_t> nearest(const Tensor& squared_distances, int64_t count) {
  const auto held = squared_distances.to(at::kDouble).contiguous();
  const auto* apart = held.data_ptr<double>();
  std::vector<int64_t> order(static_cast<size_t>(held.numel()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return apart[a] < apart[b]; });
  order.resize(std::min(order.size(), static_cast<size_t>(std::max<int64_t>(count, 0))));
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace tessera

#include "method/similarity/collaborate.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tensor/quantile.hpp"

namespace tessera {

double similarity_threshold(const Tensor& similarity, double p, bool all_entries) {
  const int64_t n = similarity.size(0);
  const auto whole = similarity.to(at::kDouble).contiguous();
  const auto* value = whole.data_ptr<double>();
  std::vector<double> taken;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = all_entries ? 0 : i + 1; j < n; ++j) taken.push_back(value[i * n + j]);
  return taken.empty() ? -std::numeric_limits<double>::infinity() : quantile(std::move(taken), p);
}

std::vector<double> collaborators(std::span<const double> similarity, size_t self, double threshold,
                                  int64_t least) {
  constexpr double kTolerance = 1e-7;
  std::vector<size_t> order(similarity.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Itself first, then by similarity; of equals the first.
  const auto own = order.begin() + static_cast<ptrdiff_t>(self);
  std::rotate(order.begin(), own, own + 1);
  std::stable_sort(order.begin() + 1, order.end(),
                   [&](size_t a, size_t b) { return similarity[a] > similarity[b]; });
  // How many of them are positive and similar enough, and how many merely positive.
  size_t size = 1, most = 1;
  for (; most < order.size() && similarity[order[most]] > 0; ++most)
    if (similarity[order[most]] >= threshold - kTolerance) ++size;
  if (size > 1) size = std::max(size, static_cast<size_t>(least));
  if (size > most) size = 1;
  std::vector<double> out(similarity.size(), 0);
  for (size_t i = 0; i < size; ++i) out[order[i]] = similarity[order[i]];
  return out;
}

std::vector<double> towards(std::vector<double> weights, size_t self, double alpha) {
  if (alpha == 1) return weights;
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight *= alpha / total;
  weights[self] += 1 - alpha;
  return weights;
}

}  // namespace tessera

#include "method/fedham/peers.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

std::vector<int64_t> members(const Labels& labels, int64_t label) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] == label) out.push_back(static_cast<int64_t>(i));
  return out;
}

int64_t near_enough(const PeerRule& rule, int64_t n) {
  return std::max((n + rule.parts - 1) / rule.parts, rule.least);
}

std::vector<int64_t> everybody(int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace

Nearness nearness(std::span<const Tensor> rows, const PeerRule& rule, uint64_t key) {
  Nearness out;
  const auto n = static_cast<int64_t>(rows.size()) - 1;
  if (rule.by == "none" || rule.parts == 1 || n < 1) return out;
  const auto inner = gram(rows);
  out.distances = squared_distances(inner).narrow(1, 0, n).contiguous();
  if (rule.by == "knn") return out;
  const auto points = embedding(inner.narrow(0, 0, n).narrow(1, 0, n));
  const auto labels = rule.by == "meanshift" ? mean_shift(points, rule.bandwidth)
                                             : kmeans(points, std::min(rule.parts, n), key);
  out.labels = joined(labels, points, rule.least);
  return out;
}

std::vector<int64_t> peers_of(const Nearness& near, const PeerRule& rule, int64_t n,
                              int64_t place) {
  std::vector<int64_t> out;
  if (near.everybody()) {
    out = everybody(n);
  } else if (rule.by == "knn") {
    auto distances = near.distances[place].clone();
    distances[place] = -1;  // itself counts, whoever else is as near
    out = nearest(distances, near_enough(rule, n));
  } else {
    out = members(near.labels, near.labels[static_cast<size_t>(place)]);
  }
  std::erase(out, place);
  return out;
}

std::vector<int64_t> peers_near(const Nearness& near, const PeerRule& rule,
                                const Tensor& distances) {
  const int64_t n = distances.numel();
  if (near.everybody()) return everybody(n);
  if (rule.by == "knn") return nearest(distances, near_enough(rule, n));
  return members(near.labels,
                 nearest_cluster(near.labels, distances, near.distances.narrow(0, 0, n)));
}

}  // namespace tessera

#include "tensor/peers.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

Labels labels_of(const Nearness& near) {
  const auto* first = near.labels.data_ptr<int64_t>();
  return {first, first + near.labels.numel()};
}

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

Nearness::Nearness() : apart(at::empty({0, 0}, at::kDouble)), labels(at::empty({0}, at::kLong)) {}

Nearness nearness(std::span<const Tensor> rows, const PeerRule& rule, uint64_t key) {
  Nearness out;
  const auto n = static_cast<int64_t>(rows.size()) - 1;
  if (rule.by == "none" || rule.parts == 1 || n < 1) return out;
  const auto inner = gram(rows);
  out.apart = squared_distances(inner).narrow(1, 0, n).contiguous();
  if (rule.by == "knn") return out;
  const auto points = embedding(inner.narrow(0, 0, n).narrow(1, 0, n));
  const auto labels =
      rule.by == "meanshift" ? mean_shift(points) : kmeans(points, std::min(rule.parts, n), key);
  out.labels = at::tensor(joined(labels, points, rule.least), at::kLong);
  return out;
}

std::vector<int64_t> peers_of(const Nearness& near, const PeerRule& rule, int64_t n,
                              int64_t place) {
  std::vector<int64_t> out;
  if (near.apart.numel() == 0) {
    out = everybody(n);
  } else if (rule.by == "knn") {
    auto apart = near.apart[place].clone();
    apart[place] = -1;  // itself counts, whoever else is as near
    out = nearest(apart, near_enough(rule, n));
  } else {
    const auto labels = labels_of(near);
    out = members(labels, labels[static_cast<size_t>(place)]);
  }
  std::erase(out, place);
  return out;
}

std::vector<int64_t> peers_near(const Nearness& near, const PeerRule& rule, const Tensor& apart) {
  const int64_t n = apart.numel();
  if (near.apart.numel() == 0) return everybody(n);
  if (rule.by == "knn") return nearest(apart, near_enough(rule, n));
  const auto labels = labels_of(near);
  return members(labels, nearest_cluster(labels, apart, near.apart.narrow(0, 0, n)));
}

}  // namespace tessera

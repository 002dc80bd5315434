// Clusters of models, from their Gram matrix alone: no vector of d numbers is touched again.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/gram.hpp"

namespace tessera {

/// The cluster of every point, numbered 0, 1, … in the order of their first members.
using Labels = std::vector<int64_t>;

/// Points with these inner products, but for a common shift and rotation (classical MDS): float64
/// [n, at most n − 1].
Tensor embedding(const Tensor& gram);

/// Lloyd's iteration from 20 k-means++ starts drawn from `key`; the tightest result. An empty
/// cluster takes the point that is farthest from its centre. k is at most the number of points.
Labels kmeans(const Tensor& points, int64_t k, uint64_t key);

/// Mean shift with a Gaussian kernel; modes closer than half a bandwidth are one cluster. Bandwidth
/// 0: neighbour_bandwidth(points).
Labels mean_shift(const Tensor& points, double bandwidth = 0);
/// How far a point's neighbours usually are: the median over n points of the distance to the m-th
/// nearest other, m = max(2, ⌈√n/2⌉). A group of m points or fewer has no m-th neighbour inside; so
/// m ends, from 2 on, before this median more than doubles. 0 for fewer than two points.
double neighbour_bandwidth(const Tensor& points);

/// Clusters of fewer than `least` points are joined, smallest first, to the one whose centre is
/// nearest, until none is left or all are one.
Labels joined(Labels labels, const Tensor& points, int64_t least);

/// The cluster whose centre is nearest to a further point, given that point's squared distances to
/// the n others and theirs to each other [n, n].
int64_t nearest_cluster(const Labels& labels, const Tensor& to_point, const Tensor& between);

/// The `count` nearest of n, ascending by place; equal distances: the first ones.
std::vector<int64_t> nearest(const Tensor& squared_distances, int64_t count);

}  // namespace tessera

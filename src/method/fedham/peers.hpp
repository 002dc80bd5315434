// Whose models a client is sent: everybody's, its cluster's, or the nearest ones.
#pragma once

#include <string>

#include "tensor/cluster.hpp"

namespace tessera {

struct PeerRule {
  std::string by = "none";  // none, kmeans, meanshift, knn
  int64_t parts = 1;        // clusters, or 1/parts of all are near enough; 1: everybody
  int64_t least = 1;        // smallest group, the asker included
  double bandwidth = 0;     // of meanshift; 0: by the distances to near neighbours
};

/// Who is near whom among n models; nothing where everybody gets everything.
struct Nearness {
  Tensor distances;  // squared [n + 1, n]; the last row is of one further model
  Labels labels;     // cluster of each of the n; knn has none
  bool everybody() const { return !distances.defined(); }
};

/// `rows` are the n models [d] and the further one, which a client without a model counts as
/// having.
Nearness nearness(std::span<const Tensor> rows, const PeerRule& rule, uint64_t key);

/// Places (ascending) of those who go with the model at `place` of n, without itself.
std::vector<int64_t> peers_of(const Nearness& near, const PeerRule& rule, int64_t n, int64_t place);
/// The same for a model that is not one of them, by its squared distances to them [n].
std::vector<int64_t> peers_near(const Nearness& near, const PeerRule& rule,
                                const Tensor& distances);

}  // namespace tessera

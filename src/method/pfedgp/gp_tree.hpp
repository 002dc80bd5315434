// The original classifier of pFedGP (Achituve et al., NeurIPS 2021, building on GP-Tree): a binary
// tree over a client's classes, at every fork a binary Gaussian process with a logistic likelihood,
// conditioned by Pólya-Gamma augmentation and Gibbs sampling.
#pragma once

#include <vector>

#include "method/pfedgp/gp.hpp"

namespace tessera {

/// A fork: classes to the left and to the right.
struct Fork {
  std::vector<int64_t> left, right;
};
struct ClassTree {
  std::vector<int64_t> classes;  // ascending
  std::vector<Fork> forks;       // one less than classes; those above come first
};
/// Forks by 2-means of the class means of z [n, k], y [n]; `key` is for its starts.
ClassTree class_tree(const Tensor& z, const Tensor& y, uint64_t key);

struct Gibbs {
  int64_t steps = 5, chains = 20;
};

/// The classifier that z [n, k], y int64 [n] (classes of the tree) give. A class's probability is
/// the product along its path; each factor is the mean over chains of E[σ(f)], by quadrature. The
/// auxiliary variables are drawn from `key` and not differentiated. Classes outside the tree get
/// 1e-6.
Classifier tree_gp(const Kernel& kernel, const Gibbs& gibbs, const ClassTree& tree, const Tensor& z,
                   const Tensor& y, int64_t classes, uint64_t key);

}  // namespace tessera

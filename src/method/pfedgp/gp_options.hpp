// Which Gaussian-process classifier a method uses, and its settings.
#pragma once

#include <string>

#include "method/pfedgp/gp_tree.hpp"

namespace tessera {

struct GpOptions {
  std::string likelihood = "dirichlet";
  Kernel kernel;
  Gibbs gibbs;

  static void options(auto& o, auto&& f) {
    f(one_of("likelihood", {"dirichlet", "pg_tree"},
             "closed form, or the paper's tree of binary processes (much slower)"),
      o.likelihood);
    Kernel::options(o.kernel, f);
    f(between("gibbs_steps", 1, 1e6, "pg_tree: sweeps of a Markov chain"), o.gibbs.steps);
    f(between("chains", 1, 1e6, "pg_tree: Markov chains"), o.gibbs.chains);
  }

  /// What the first `known` of the points z [n, k], y [n] tell; a tree is one of all their classes.
  Classifier fit(const Tensor& z, const Tensor& y, int64_t known, int64_t classes,
                 uint64_t key) const;
};

}  // namespace tessera

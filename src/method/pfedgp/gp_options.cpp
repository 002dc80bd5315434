#include "method/pfedgp/gp_options.hpp"

#include <ATen/ATen.h>

#include "base/key.hpp"

namespace tessera {

Classifier GpOptions::fit(const Tensor& z, const Tensor& y, int64_t known, int64_t classes,
                          uint64_t key) const {
  enum Stream : uint64_t { kTree = 1, kChains = 2 };
  const auto points = z.narrow(0, 0, known), labels = y.narrow(0, 0, known);
  if (likelihood == "dirichlet") return dirichlet_gp(kernel, points, labels, classes);
  return tree_gp(kernel, gibbs, class_tree(z, y, derive(key, kTree)), points, labels, classes,
                 derive(key, kChains));
}

}  // namespace tessera

#include "run/layout_digest.hpp"

#include <fmt/ranges.h>

#include "io/sha256.hpp"

namespace tessera {

std::string layout_digest(const Model& model) {
  Digest digest;
  for (const auto* layout : {&model.layout(), &model.buffers()}) {
    for (const auto& slice : layout->slices())
      digest.add(fmt::format("{} {}\n", slice.name, fmt::join(slice.shape, "x")));
    digest.add("--\n");
  }
  return digest.hex();
}

}  // namespace tessera

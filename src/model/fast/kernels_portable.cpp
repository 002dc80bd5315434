#include <algorithm>
#include <cstdint>

#include "model/fast/kernels.hpp"

namespace tessera::fast {
namespace portable {
namespace {

// Each of these uses the one before.
// clang-format off
#include "model/fast/tiles.inl.hpp"
#include "model/fast/conv.inl.hpp"
#include "model/fast/linear.inl.hpp"
#include "model/fast/transformer.inl.hpp"
#include "model/fast/table.inl.hpp"
// clang-format on

}  // namespace
}  // namespace portable

const Kernels& portable_kernels() {
  static const Kernels table = portable::make_table("portable");
  return table;
}

}  // namespace tessera::fast

#include <algorithm>
#include <cstdint>
#include <utility>

#include "model/fast/kernels.hpp"

namespace tessera::fast {
namespace portable {
namespace {

constexpr int kWide = 8, kDotRows = 3;
constexpr int kMostRows[] = {0, 12, 6, 4, 0};  // as avx2

// Each of these uses the one before.
// clang-format off
#include "model/fast/tiles.inl.hpp"
#include "model/fast/conv.inl.hpp"
#include "model/fast/side.inl.hpp"
#include "model/fast/linear.inl.hpp"
#include "model/fast/transformer.inl.hpp"
#include "model/fast/gru.inl.hpp"
#include "model/fast/table.inl.hpp"
// clang-format on

}  // namespace
}  // namespace portable

const Kernels& portable_kernels() {
  static const Kernels table = portable::make_table("portable");
  return table;
}

}  // namespace tessera::fast

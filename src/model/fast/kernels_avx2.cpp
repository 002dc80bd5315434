// The pragma covers only the kernels: standard headers stay plain, so that no inline function of
// theirs compiled for AVX2 can end up in a program that runs on an older processor.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "model/fast/kernels.hpp"

namespace tessera::fast {
namespace avx2 {
namespace {

constexpr int kWide = 8, kDotRows = 3;
constexpr int kMostRows[] = {0, 12, 6, 4, 0};  // at most 12 accumulators of 16 registers

#pragma GCC push_options
#pragma GCC target("avx2,fma")
// Each of these uses the one before.
// clang-format off
#include "model/fast/tiles.inl.hpp"
#include "model/fast/conv.inl.hpp"
#include "model/fast/side.inl.hpp"
#include "model/fast/linear.inl.hpp"
#include "model/fast/transformer.inl.hpp"
#include "model/fast/gru.inl.hpp"
// clang-format on
#pragma GCC pop_options
#include "model/fast/table.inl.hpp"

}  // namespace
}  // namespace avx2

const Kernels& avx2_kernels() {
  static const Kernels table = avx2::make_table("avx2");
  return table;
}

}  // namespace tessera::fast

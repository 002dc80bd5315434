// As kernels_avx2.cpp, on vectors of 16. The text is tested as compiled for AVX2, too
// (kernels_wide_test.cpp), where every such vector is two: the order of all sums is the same, so
// are the bits.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "model/fast/kernels.hpp"

namespace tessera::fast {
namespace avx512 {
namespace {

constexpr int kWide = 16, kDotRows = 6;
constexpr int kMostRows[] = {0, 12, 12, 8, 6};  // at most 24 accumulators of 32 registers

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx512cd,fma")
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
}  // namespace avx512

const Kernels& avx512_kernels() {
  static const Kernels table = avx512::make_table("avx512");
  return table;
}

}  // namespace tessera::fast

// The pragma covers only the kernels: standard headers stay plain, so that no inline function of
// theirs compiled for AVX2 can end up in a program that runs on an older processor.
#include <algorithm>
#include <cstdint>

#include "model/fast/kernels.hpp"

namespace tessera::fast {

bool avx2_supported() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

namespace avx2 {
namespace {

#pragma GCC push_options
#pragma GCC target("avx2,fma")
// Each of these uses the one before.
// clang-format off
#include "model/fast/tiles.inl.hpp"
#include "model/fast/conv.inl.hpp"
#include "model/fast/linear.inl.hpp"
#include "model/fast/transformer.inl.hpp"
// clang-format on
#pragma GCC pop_options
#include "model/fast/table.inl.hpp"

}  // namespace
}  // namespace avx2

const Kernels& avx2_kernels() {
  static const Kernels table = avx2::make_table("avx2");
  return table;
}

const Kernels& kernels() {
  static const Kernels& best = avx2_supported() ? avx2_kernels() : portable_kernels();
  return best;
}

}  // namespace tessera::fast

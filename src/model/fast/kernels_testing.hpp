// Sets of kernels to test: all that this processor can run, and the text of avx512 as compiled for
// AVX2.
#pragma once

#include <vector>

#include "model/fast/kernels.hpp"

namespace tessera::testing {

/// Vectors of 16 on AVX2, two registers each: slow, with the bits of avx512.
const fast::Kernels& wide_kernels();

std::vector<const fast::Kernels*> tested_kernels();

}  // namespace tessera::testing

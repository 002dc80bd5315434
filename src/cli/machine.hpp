// What does the arithmetic on this machine.
#pragma once

#include <string>

namespace tessera {

/// "kernels avx2, OpenBLAS Zen, AMD EPYC"
std::string machine_text();

}  // namespace tessera

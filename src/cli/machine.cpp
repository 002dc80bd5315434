#include "cli/machine.hpp"

#include <fmt/format.h>

#include "base/blas.hpp"
#include "model/fast/kernels.hpp"

namespace tessera {

std::string machine_text() {
  return fmt::format("kernels {}, {}, {}", fast::kernels().name, blas_name(),
                     this_processor().name);
}

}  // namespace tessera

// What the processor can do, as far as a choice depends on it.
#pragma once

#include <string>

namespace tessera {

struct Processor {
  std::string name;     // as it calls itself; "unknown" if it does not
  bool amd = false;     // made by AMD
  bool avx2 = false;    // with FMA
  bool avx512 = false;  // F, DQ, BW, VL and CD: what every server processor with any of it has
};

/// Of this machine, as the system lets programs use it; asked once.
const Processor& this_processor();

}  // namespace tessera

// What must hold for whatever a parser accepts: a broken promise ends the fuzzer like a crash.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace tessera {

inline void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

}  // namespace tessera

#include "expect.hpp"
#include "io/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  constexpr size_t kMost = 1 << 18;
  const auto bytes = unpack({data, size}, kMost, "fuzz");
  expect(!bytes.ok() || bytes->size() <= kMost, "the limit holds");
  return 0;
}

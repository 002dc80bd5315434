#include "expect.hpp"
#include "io/archive.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  constexpr size_t kMost = 1 << 20;
  const auto any = [](const std::string&) { return true; };
  const auto files = find_in_archive({data, size}, "fuzz", any, {.max_bytes = kMost});
  if (!files.ok()) return 0;
  size_t bytes = 0;
  for (const auto& [name, contents] : *files) {
    expect(name.find('/') == std::string::npos, "no path comes out of an archive");
    bytes += contents.size();
  }
  expect(bytes <= kMost, "the limit holds over all levels");
  return 0;
}

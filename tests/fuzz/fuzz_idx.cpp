#include "expect.hpp"
#include "io/idx.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  if (const auto images = parse_idx_images({data, size}, "fuzz"); images.ok())
    expect(images->pixels.size() ==
               static_cast<uint64_t>(images->count * images->rows * images->columns),
           "all pixels are there");
  if (const auto labels = parse_idx_labels({data, size}, 10, "fuzz"); labels.ok())
    for (const auto label : *labels) expect(label < 10, "labels in range");
  return 0;
}

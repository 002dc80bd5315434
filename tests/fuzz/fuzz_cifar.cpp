#include "expect.hpp"
#include "io/cifar.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  for (const auto labels : {CifarLabels::kOne, CifarLabels::kCoarseAndFine}) {
    const auto records = parse_cifar({data, size}, labels, 10, "fuzz");
    if (!records.ok()) continue;
    expect(records->labels.size() == records->pixels.size(), "a label for each picture");
    for (const auto label : records->labels) expect(label < 10, "labels in range");
    for (const auto pixels : records->pixels)
      expect(pixels.size() == kCifarPixels && pixels.data() + kCifarPixels <= data + size,
             "pixels inside the file");
  }
  return 0;
}

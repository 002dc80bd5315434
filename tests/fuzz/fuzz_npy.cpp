#include "expect.hpp"
#include "io/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const auto array = parse_npy({data, size}, "fuzz");
  if (!array.ok()) return 0;
  const auto again = write_npy(*array);
  expect(again.ok(), "what was read can be written");
  const auto back = parse_npy(*again, "fuzz");
  expect(back.ok() && back->dtype == array->dtype && back->shape == array->shape &&
             back->data == array->data,
         "and read again");
  return 0;
}

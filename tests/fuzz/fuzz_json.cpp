#include "expect.hpp"
#include "io/bytes.hpp"
#include "io/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const auto value = parse_json(text_of({data, size}), "fuzz");
  if (!value.ok()) return 0;
  const auto again = parse_json(value->dump(), "fuzz");
  expect(again.ok() && again->dump() == value->dump(), "what was read can be written and read");
  return 0;
}

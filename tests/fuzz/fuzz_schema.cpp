#include "data/schema.hpp"
#include "expect.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const auto schema = parse_schema({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!schema.ok()) return 0;
  expect(schema_problem(*schema).empty(), "what is read fits");
  const auto names = input_names(*schema);
  expect(names.empty() || names.size() == static_cast<size_t>(schema->sample_shape[0]),
         "an input for each name");
  const auto again = parse_schema(schema_json(*schema), "fuzz");
  expect(again.ok() && schema_json(*again) == schema_json(*schema), "it survives being written");
  return 0;
}

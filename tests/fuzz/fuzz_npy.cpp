#include "base/text.hpp"
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
             back->data == array->data && back->texts == array->texts,
         "and read again");
  const auto count =
      array->is_text ? array->texts.size() : array->data.size() / item_size(array->dtype);
  double sum = 0;
  for (size_t i = 0; i < count && !array->is_text; ++i) sum += number_at(*array, i);
  (void)sum;
  for (const auto& text : array->texts) expect(utf8_length(text) == text.size(), "texts are UTF-8");
  return 0;
}

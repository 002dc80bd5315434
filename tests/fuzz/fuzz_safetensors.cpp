#include "expect.hpp"
#include "io/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const ByteSpan file(data, size);
  const auto parsed = parse_safetensors(file, "fuzz");
  if (!parsed.ok()) return 0;
  std::vector<TensorToWrite> tensors;
  for (const auto& entry : parsed->entries) {
    expect(entry.begin <= entry.end && entry.end <= size, "tensors lie inside the file");
    tensors.push_back(
        {entry.name, entry.dtype, entry.shape, file.subspan(entry.begin, entry.end - entry.begin)});
  }
  const auto once = write_safetensors(tensors, parsed->metadata);
  expect(once.ok(), "what was read can be written");
  const auto back = parse_safetensors(*once, "fuzz");
  expect(back.ok() && back->metadata == parsed->metadata &&
             back->entries.size() == parsed->entries.size(),
         "and read again");
  return 0;
}

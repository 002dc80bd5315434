#include "expect.hpp"
#include "io/npy.hpp"
#include "io/zip.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  constexpr size_t kMost = 1 << 20;
  if (const auto members = read_zip({data, size}, kMost, "fuzz"); members.ok()) {
    size_t bytes = 0;
    for (const auto& member : *members) bytes += member.data.size();
    expect(bytes <= kMost, "the limit holds");
  }
  if (const auto arrays = parse_npz({data, size}, kMost, "fuzz"); arrays.ok())
    for (const auto& [name, array] : *arrays)
      expect(array.is_text ? tensor_bytes(DType::kU8, array.shape) == array.texts.size()
                           : tensor_bytes(array.dtype, array.shape) == array.data.size(),
             "data fit the shape");
  return 0;
}

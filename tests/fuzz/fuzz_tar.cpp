#include "expect.hpp"
#include "io/tar.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const auto members = parse_tar({data, size}, "fuzz");
  if (!members.ok()) return 0;
  const uint8_t* last = data;
  for (const auto& member : *members) {
    expect(member.data.data() >= last && member.data.data() + member.data.size() <= data + size,
           "members lie inside the file, one after the other");
    last = member.data.data() + member.data.size();
  }
  return 0;
}

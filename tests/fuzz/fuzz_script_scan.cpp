// A TorchScript file, one of its pickles or its code: told apart by the first bytes, because a
// search never gets past the checksums of an archive.
#include <string_view>

#include "expect.hpp"
#include "io/script_code.hpp"
#include "io/script_file.hpp"
#include "io/script_pickle.hpp"

namespace {

using namespace tessera;

bool in_a_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Whether code without texts names this, by itself: not as the end or the beginning of a name.
bool names(std::string_view code, std::string_view what) {
  for (size_t at = code.find(what); at != code.npos; at = code.find(what, at + 1)) {
    const size_t end = at + what.size();
    const bool begins = at == 0 || (!in_a_name(code[at - 1]) && code[at - 1] != '.');
    if (begins && (end == code.size() || !in_a_name(code[end]))) return true;
  }
  return false;
}

void check_code(std::string_view code) {
  const auto found = check_script_code({{"__torch__", std::string(code)}}, "fuzz");
  if (!found.ok() || code.find('"') != code.npos) return;
  for (const char* never : {"torch.save", "torch.from_file", "torch.autograd", "ops.aten.save",
                            "ops.c10d", "__setstate__", "import", "with"})
    expect(!names(code, never), never);
}

void check_file(ByteSpan file) {
  const auto checked = check_script_file(file, "fuzz", {.max_growth = 1 << 20});
  if (!checked.ok()) return;
  const auto again = check_script_file(checked->archive, "fuzz");
  expect(again.ok() && again->archive == checked->archive, "what was checked stays what it is");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteSpan bytes(data, size);
  const auto text = text_of(bytes);
  if (text.starts_with("PK")) {
    check_file(bytes);
  } else if (text.starts_with("\x80")) {
    const PickleNames names{{"__torch__.Net"}, {{"0", 48}, {"1", 8}}};
    check_script_pickle(bytes, names, "fuzz").IgnoreError();
  } else {
    check_code(text);
  }
  return 0;
}

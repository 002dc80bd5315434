#include "io/bytes.hpp"

namespace tessera {

std::string printable(std::string_view text, size_t longest) {
  std::string out(text.substr(0, longest));
  if (text.size() > longest) {
    // A character cut in two would be invalid UTF-8: drop its bytes.
    while (!out.empty() && (static_cast<uint8_t>(out.back()) & 0xC0) == 0x80) out.pop_back();
    if (!out.empty() && static_cast<uint8_t>(out.back()) >= 0xC0) out.pop_back();
    out += "…";
  }
  for (char& c : out)
    if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) c = '?';
  return out;
}

}  // namespace tessera

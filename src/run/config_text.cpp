#include "run/config_text.hpp"

#include <algorithm>

#include "io/bytes.hpp"
#include "io/sha256.hpp"

namespace tessera {
namespace {

std::string line_at(const std::string& text, size_t at) {
  const auto begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

std::string first_difference(const std::string& theirs, const std::string& ours) {
  const auto [a, b] = std::mismatch(theirs.begin(), theirs.end(), ours.begin(), ours.end());
  if (a == theirs.end() || b == ours.end()) return "";
  const auto at = static_cast<size_t>(a - theirs.begin());
  return fmt::format(": there '{}', here '{}'", printable(line_at(theirs, at)), line_at(ours, at));
}

}  // namespace

std::string comparable_config(const std::string& config) {
  std::string out;
  bool in_eval = false, in_model = false;  // a method may have options called so, too
  for (size_t begin = 0; begin < config.size();) {
    const auto end = std::min(config.find('\n', begin), config.size() - 1) + 1;
    const auto line = config.substr(begin, end - begin);
    if (line.starts_with("["))
      in_eval = line.starts_with("[eval]"), in_model = line.starts_with("[model]");
    const bool path = line.starts_with("data_dir ") ||
                      (in_model && (line.starts_with("file ") || line.starts_with("start ")));
    if (!path && !(in_eval && line.starts_with("metric "))) out += line;
    begin = end;
  }
  return out;
}

std::string config_digest(const std::string& config) {
  return sha256_hex(bytes_of(comparable_config(config)));
}

Status same_config(const std::string& dir, const std::string& theirs, const std::string& ours) {
  const auto a = comparable_config(theirs), b = comparable_config(ours);
  if (a == b) return ok();
  return fail(Error::kInvalid,
              "{}: belongs to another configuration{}; choose another --out or use --force", dir,
              first_difference(a, b));
}

}  // namespace tessera

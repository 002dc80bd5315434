// JSON from outside, within bounds. Every text that this process did not write itself comes in
// here: nlohmann copies, prints and compares by recursion, so depth alone can overflow the stack.
// (safetensors headers have a reader of their own, which admits three levels and nothing more.)
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace tessera {

inline constexpr int kMaxJsonDepth = 64;                   // lists and objects inside each other
inline constexpr size_t kMaxJsonBytes = size_t{64} << 20;  // a value takes 8 times its text

/// The value. kInvalid, with `name` in front: not JSON, something after it, or beyond the bounds.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& name);

/// A list of at most `most` texts. kInvalid as above, or if it is something else.
Result<std::vector<std::string>> parse_json_names(std::string_view text, size_t most,
                                                  const std::string& name);

}  // namespace tessera

// Options as `tessera methods`, `models` and `data list` show them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.hpp"

namespace tessera {

/// [{"key", "default", "domain", "help"}], in the order they are listed.
nlohmann::json options_json(const std::vector<BoundOption>& options);
/// A line each: "    mu = 0.01  what it is; number >= 0".
std::string options_text(const std::vector<BoundOption>& options);

}  // namespace tessera

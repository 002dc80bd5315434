// How a value of a file or of a command line gets into an option.
#pragma once

#include <string>

#include "base/options.hpp"
#include "run/toml_entries.hpp"

namespace tessera {

/// "train.lr": a key as messages name it.
std::string dotted(const std::string& section, const std::string& key);

/// Puts a value into an option; returns "", or what is wrong with it. `name` is "train.lr".
std::string assign(const BoundOption& option, const TomlEntry& entry, const std::string& name);

}  // namespace tessera

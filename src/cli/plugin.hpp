// `--plugin FILE`: methods from shared libraries (src/method/plugin.hpp).
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"

namespace tessera {

/// Loads a library, adds its methods to the table and returns their names. The library stays loaded
/// for as long as the program runs. A path without '/' is a file of the current directory. A
/// library that was loaded before is kExists, as any name that is taken. kNotFound if there is no
/// such file; kInvalid if it is no library, no plugin, or one of another version. Of a plugin that
/// is refused nothing stays in the table. When a program starts: see add_methods().
Result<std::vector<std::string>> load_plugin(const std::string& path);

/// Each in turn, up to the first that fails.
Status load_plugins(const std::vector<std::string>& paths);

}  // namespace tessera

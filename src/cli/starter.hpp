// What `tessera new` writes: data that we make up, and an experiment on them. The same files
// everywhere and always: every number follows from fixed keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace tessera {

/// What a starter is about, in the words of --from.
inline const std::vector<std::string> kStarters{"table", "pictures", "series"};

/// Writes client-NAME.csv (table) or client-NAME.npz into a directory that exists; their paths.
Result<std::vector<std::string>> write_starter_data(const std::string& kind,
                                                    const std::string& dir);

/// A commented experiment on those data, which lie in data/ beside it.
std::string starter_experiment(const std::string& kind, const std::string& name);

}  // namespace tessera

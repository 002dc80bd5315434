// Where a set's files are. Needs no torch.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"

namespace tessera {

/// A set's usual folder names (the first is the one `tessera data get` makes) and files, any one of
/// which tells that the folder has it; each may be packed (.gz, .xz).
struct SetFiles {
  std::string set;
  std::vector<std::string> folders, marks;
  std::string hint;  // another way to get it; may be empty
};
/// Null for sets without files of their own (built ones, npz).
const SetFiles* files_of(const std::string& set);

/// TESSERA_DATA, or else a folder of the user's own: where `tessera data get` puts sets.
std::string user_data_dir();

enum class Direct { kAllowed, kForbidden };

/// The directory that holds the set's files: a usual folder of data_dir, data_dir itself (unless
/// forbidden, for built sets that need several sets with equal file names), then the same of
/// TESSERA_DATA and the user's own folder, then the system's dataset directory.
/// kNotFound names every place and how to get the set.
Result<std::string> find_set(const std::string& set, const std::string& data_dir,
                             Direct direct = Direct::kAllowed);

}  // namespace tessera

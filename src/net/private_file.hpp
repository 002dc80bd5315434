// Files and directories that only their owner may read: keys.
//
// Errors name the path: kIo or kNotFound if the system refuses, kInvalid with the remedy if others
// can read what they must not.
#pragma once

#include <string>

#include "base/status.hpp"

namespace tessera {

/// The same as write_file_atomic(), but the file is 0600 from its first byte on.
Status write_private_file(const std::string& path, const std::string& text);

/// Fine if nobody but the owner can read or write the file.
Status check_private_file(const std::string& path);

/// Makes the directory, and parents as usual, with mode 0700; one that is there stays as it is.
Status make_private_dir(const std::string& dir);

}  // namespace tessera

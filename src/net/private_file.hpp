// Files and directories that only their owner may read: keys; and a process that holds such.
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

/// From here on this process leaves no core dump, and others of its user cannot look into it
/// (ptrace, /proc/PID/mem): call it before a key is read. What is started anew (execv) begins as
/// usual. Fine where the system does not know it.
void keep_memory_private();

}  // namespace tessera

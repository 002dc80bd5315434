// What a command leaves behind: text on standard output, errors, files.
#pragma once

#include <string>

#include "base/status.hpp"

namespace tessera {

/// Exit codes, part of the contract with scripts.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;      // failed while running
inline constexpr int kExitWrongInput = 2;  // a flag, a file, a value
inline constexpr int kExitInterrupted = 130;

int exit_code(const Status& status);

/// Prints every line of the message as "tessera: …" on standard error; the exit code that follows.
int print_error(const Status& status);

/// "tessera: …" on standard error, for what is worth knowing and no error.
void print_note(const std::string& text);

/// To standard output; kIo if it cannot be written (a full disk, a closed pipe).
Status print(const std::string& text);

/// Written whole or not at all.
Status write_text(const std::string& path, const std::string& text);

}  // namespace tessera

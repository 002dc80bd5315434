// The command line described: as help, as a man page, and for bash to complete. All are made from
// the parser itself, so that they cannot say anything else than --help.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace tessera {

/// Sub-commands of a command, in the order of --help.
std::vector<const CLI::App*> commands_of(const CLI::App& app);

/// "run", "data list": a command without the program's name. Empty for the program itself.
std::string path_of(const CLI::App& root, const CLI::App* app);

/// Prints the help of the command that the words name; none: of the program. kInvalid suggests the
/// nearest command.
Status print_help(const CLI::App& root, const std::vector<std::string>& words);

/// tessera.1 in roff's man macros, UTF-8.
std::string man_page(const CLI::App& root);

/// A script that bash sources; names of methods are those of the table now.
std::string bash_completion(const CLI::App& root);

}  // namespace tessera

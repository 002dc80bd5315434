// What to say of words that the parser could not place.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace tessera {

/// The innermost sub-command that was recognised.
const CLI::App* innermost(const CLI::App* app);

/// One sentence with the nearest name there is, and where to read more.
std::string usage_error(const CLI::App& root, const CLI::ParseError& error);

}  // namespace tessera

// What a comparison is of: data, model, clients, rounds and settings, from its runs.
#pragma once

#include <string>
#include <vector>

#include "report/history.hpp"

namespace tessera {

/// Data, model, clients, rounds, seeds and training as tiles; several values where runs differ.
/// Empty without runs.
std::string compare_tiles(const std::vector<RunHistory>& runs);

/// The settings that all runs share, then those of each method alone. Seeds are left out. Empty
/// where no run has a configuration.
std::string compare_settings(const std::vector<RunHistory>& runs);

}  // namespace tessera

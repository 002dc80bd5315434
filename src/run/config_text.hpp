// The resolved experiment as text (config.toml): what makes two runs runs of one experiment.
#pragma once

#include <string>

#include "base/status.hpp"

namespace tessera {

/// The text without the lines that do not make another experiment: where data and the files of
/// [model] lie may differ between machines (their digests may not), and the metric that leads is a
/// way to look at a run.
std::string comparable_config(const std::string& config);

/// SHA-256 (hex) of the comparable text.
std::string config_digest(const std::string& config);

/// kInvalid if `dir` holds a run of another experiment; names the first line that differs.
Status same_config(const std::string& dir, const std::string& theirs, const std::string& ours);

}  // namespace tessera

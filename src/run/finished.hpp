// A finished run, read back: its summary counts only together with the files it sums up.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.hpp"
#include "run/history.hpp"

namespace tessera {

/// `history_digest` of a summary: every reproducible number of the history, then the models that
/// `dir`/models holds of its clients, by id, and the global one. kInvalid if one of them is damaged
/// or of another program.
Result<std::string> full_digest(History& history, const std::string& dir);

/// summary.json of the finished run in `dir`, changing nothing. kInvalid if it is not one that a
/// run of this configuration (Experiment::toml()) wrote, or if history or models are not those it
/// was written for. The message says what to do.
Result<nlohmann::json> read_finished(const std::string& dir, const std::string& config);

}  // namespace tessera

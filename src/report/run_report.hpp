// One run as one self-contained HTML page: key figures, curves, clients, data, configuration.
#pragma once

#include <string>

#include "base/status.hpp"
#include "report/history.hpp"

namespace tessera {

/// The page: no script, no network, light and dark, fit to print. Works for a run that is still
/// going on. kInvalid if the history holds neither rounds nor evaluations nor clients.
Result<std::string> run_report(const RunHistory& run);

}  // namespace tessera

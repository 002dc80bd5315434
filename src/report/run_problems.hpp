// Who was rejected or failed in a run.
#pragma once

#include <string>

#include "report/history.hpp"

namespace tessera {

/// Clients by name, what went wrong, how often, when first and why; and rounds that did not count.
/// Empty where nothing went wrong.
std::string problems_section(const RunHistory& run);

}  // namespace tessera

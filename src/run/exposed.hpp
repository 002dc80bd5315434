// What an experiment exposes of a client: its method's declaration under its guards.
#pragma once

#include <string>
#include <vector>

#include "run/experiment.hpp"

namespace tessera {

/// By name, in the order in which they act.
std::vector<std::string> active_guards(const GuardOptions& guards);
/// Whether the server needs no more than the sum of uploads.
bool needs_sums_only(const Experiment& experiment);
/// Who sees what: "server", "peers", "user", and what stays.
std::vector<Sight> exposed(const Experiment& experiment);

}  // namespace tessera

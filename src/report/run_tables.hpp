// The figures of a run as tables: metrics of every group and view, and what was sent for what.
#pragma once

#include <cstdint>
#include <string>

#include "report/history.hpp"

namespace tessera {

/// Test metrics at a round: clients and newcomers, before and after personalization, global model;
/// first how the leading metric is spread over clients, then the means of all. Where the history
/// has it and classes are few, also which class was taken for which. Empty without any.
std::string metrics_table(const RunHistory& run, int64_t round);

/// Traffic of training, of evaluating and of getting newcomers their models, apart.
std::string traffic_table(const RunHistory& run);

}  // namespace tessera

// Whether the rows of a comparison can run at all: data, model and method, before the first begins.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/compare_plan.hpp"

namespace tessera {

/// What the data of an experiment depend on: its section [data], without the place, and its seed.
/// Equal texts mean equal data while the files stay as they are.
std::string data_of(const Experiment& experiment);

/// Tries every run of every row as far as that goes without training: loads each set of data once,
/// makes model and method, asks every client. A row of which one run cannot go gets its
/// `cannot_run`; a candidate among several is taken out of its row. Each is said on standard
/// error. The digests of the data by data_of(); of data that cannot be loaded there is none.
/// kInvalid, with all reasons, if `strict` and there is one, or if no row is left.
Result<std::map<std::string, std::string>> check_rows(std::vector<PlannedRow>& rows, bool strict);

}  // namespace tessera

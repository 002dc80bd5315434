// One run with its page: what `run` does once and `compare` for every cell.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.hpp"
#include "report/history.hpp"

namespace tessera {

/// Runs (or reads, or resumes, as the flags say) into `out` under a progress display called
/// `label`, and writes report.html unless told not to. Returns the summary.
Result<nlohmann::json> run_cell(const Experiment& experiment, const RunArgs& args,
                                const std::string& out, const std::string& label);

/// What a finished run says in the terminal: the table, its cost, its problems, where the page is.
Result<std::string> finished_text(const Experiment& experiment, const nlohmann::json& summary,
                                  const std::string& dir);

/// report.html of a run from its history.
Status write_run_report(const std::string& dir);

/// The page of a comparison from the runs that `table` (table.json) lists, below `dir`.
/// `table` rows "METHOD (pre)" and "METHOD (post)" show that view of their runs.
Status write_comparison_report(const std::string& dir, const nlohmann::json& table);

}  // namespace tessera

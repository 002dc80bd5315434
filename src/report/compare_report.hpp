// Several methods side by side, each over several seeds, as one self-contained HTML page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "report/history.hpp"

namespace tessera {

/// `runs`: every method × seed, grouped by RunHistory::display(). May be empty (table only).
/// `table` is table.json: an array of rows, one a method, in the order to be shown:
///   method          text, as RunHistory::display() gives it
///   seeds           how many runs are behind the row
///   accuracy_mean   headline test accuracy, fraction, mean over seeds
///   accuracy_std    its standard deviation over seeds; null for one seed
///   pre_mean, post_mean, worst10           fractions, mean over seeds
///   bytes_down, bytes_up, sim_seconds, wall_seconds   of a whole run, mean over seeds
///   difference      mean over pairs of accuracy − that of best_baseline, fraction
///   difference_low, difference_high   its 95 % interval, by Student's t over the pairs
///   p_value         of that paired difference
///   seeds_to_decide how many seeds would put the interval on one side of 0 at this spread
///   note            what was chosen on validation data, a line
///   best_baseline   the method compared with; null where there is none
///   paired_by       seeds or clients: what the pairs are; missing = seeds
///   metric          what the figures named accuracy, pre, post and worst10 are of
///   (base/metric.hpp);
///                   missing = accuracy
///   runs            directories beside the page, each with the report.html of one seed
///   failed          why the row has no numbers; shown in their place, and the row is not drawn
/// Every field but `method` may be null or missing and prints as "–".
/// kInvalid names the row and field that is not of its type.
Result<std::string> compare_report(const std::string& title, const std::vector<RunHistory>& runs,
                                   const nlohmann::json& table);

}  // namespace tessera

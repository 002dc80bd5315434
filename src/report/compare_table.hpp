// The table of a comparison: table.json read, and drawn so that a click on a heading sorts it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "report/history.hpp"
#include "report/leading.hpp"

namespace tessera {

/// A row of table.json (see compare_report.hpp).
struct CompareRow {
  std::string method, best_baseline, paired_by;
  std::string metric = "accuracy";        // what its accuracy_*, pre, post and worst10 are of
  std::string note;                       // what was chosen on validation data; usually empty
  std::string failed;                     // why there are no numbers; usually empty
  std::vector<std::string> runs;          // directories beside the page
  std::map<std::string, double> numbers;  // absent = kAbsent
  double at(const char* field) const { return numbers.at(field); }
};

/// kInvalid names the row and field that is not of its type.
Result<std::vector<CompareRow>> read_compare_table(const nlohmann::json& table);

/// The metric that all rows with numbers are of.
Leading leading_of(const std::vector<CompareRow>& rows);

/// Seeds are links to the pages of their runs; `runs` tells the seed of each directory.
std::string compare_table(const std::vector<CompareRow>& rows, const std::vector<RunHistory>& runs);

/// A <script> that lets headings of tables "sortable" sort by the data-key of their cells. It only
/// adds: without it the page is whole.
std::string sort_script();

}  // namespace tessera

#include <algorithm>

#include "base/text.hpp"
#include "cli/cell_report.hpp"
#include "cli/commands.hpp"
#include "cli/compare_plan.hpp"
#include "cli/compare_player.hpp"
#include "cli/comparison.hpp"
#include "cli/output.hpp"
#include "cli/spread.hpp"
#include "data/keep.hpp"

namespace tessera {
namespace {

/// Names and reasons may quote files and need not be UTF-8, which JSON must be.
std::string json_text(const Comparison& comparison) {
  return comparison.json().dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// For machines: what table.json has, one line a row, numbers as they are; absent ones are empty.
std::string numbers_csv(const nlohmann::json& rows) {
  std::vector<std::string> columns{"method"};
  for (const auto& row : rows)
    for (const auto& [key, value] : row.items())
      if (!value.is_array() && std::find(columns.begin(), columns.end(), key) == columns.end())
        columns.push_back(key);
  Table table(columns);
  for (const auto& row : rows) {
    std::vector<std::string> cells;
    for (const auto& column : columns) {
      const auto value = row.value(column, nlohmann::json());
      cells.push_back(value.is_null()     ? ""
                      : value.is_string() ? value.get<std::string>()
                                          : value.dump());
    }
    table.row(std::move(cells));
  }
  return table.csv();
}

Status write_tables(const std::string& out, const Comparison& comparison) {
  const auto table = comparison.table();
  TESSERA_RETURN_IF_ERROR(
      write_text(out + "/table.md", table.markdown() + "\n" + comparison.caption() + "\n"));
  TESSERA_RETURN_IF_ERROR(write_text(out + "/table.csv", numbers_csv(comparison.json())));
  return write_text(out + "/table.json", json_text(comparison));
}

/// The metric that leads the table.
Result<std::string> metric_of_all(const std::vector<PlannedRow>& rows) {
  std::string out;
  for (const auto& row : rows)
    for (const auto& candidate : row.candidates)
      for (const auto& cell : candidate.cells) {
        const auto& metric = cell.experiment.eval.metric;
        if (!out.empty() && metric != out)
          return fail(Error::kInvalid,
                      "--methods: '{}' has eval.metric = \"{}\" where others have \"{}\", and a "
                      "table has one; use --metric for all",
                      candidate.label, metric, out);
        out = metric;
      }
  return out;
}

}  // namespace

Result<int> compare_command_on_rank(const CompareArgs& given, RankSeat& seat) {
  auto args = given;
  args.run.quiet = true;
  const KeepSources keep;
  TESSERA_ASSIGN(const auto rows, plan_comparison(args));
  std::map<std::string, const PlannedRun*> cells;
  for (const auto& row : rows)
    for (const auto& candidate : row.candidates)
      for (const auto& cell : candidate.cells) cells.emplace(key_of(cell), &cell);
  const auto out = comparison_directory(args, rows);
  LastFederation last;
  const auto play = [&](const std::string& key, const std::string& label,
                        const std::atomic<bool>& stop) -> Status {
    const auto found = cells.find(key);
    if (found == cells.end()) return unknown_cell();
    const auto& cell = *found->second;
    return play_planned(args, cell, out + "/" + cell.name, label, &stop, false, last).status();
  };
  return play_spread_cells(seat, play, args.run.stop);
}

Status compare_command(const CompareArgs& args) {
  const KeepSources keep;
  TESSERA_ASSIGN(auto rows, plan_comparison(args));
  TESSERA_ASSIGN(const auto metric, metric_of_all(rows));
  TESSERA_ASSIGN(const auto digests, check_rows(rows, args.strict));
  const auto out = comparison_directory(args, rows);
  ComparePlayer player(args, rows, digests, out);
  if (args.ranks) {
    args.ranks->go_on = kCellsGoOn;
    TESSERA_RETURN_IF_ERROR(player.spread(*args.ranks));
  }
  TESSERA_ASSIGN(const auto cells, player.play());
  const auto comparison = compare_cells(cells, metric);
  TESSERA_RETURN_IF_ERROR(write_tables(out, comparison));
  TESSERA_RETURN_IF_ERROR(write_comparison_report(out, comparison.json()));
  TESSERA_RETURN_IF_ERROR(
      print(args.run.json ? json_text(comparison)
                          : fmt::format("{}\n{}\n{}/report.html\n", comparison.table().text(),
                                        comparison.caption(), out)));
  return comparison.verdict();
}

}  // namespace tessera

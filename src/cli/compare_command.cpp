#include <cmath>

#include "cli/cell_report.hpp"
#include "cli/commands.hpp"
#include "cli/compare_plan.hpp"
#include "cli/comparison.hpp"
#include "cli/output.hpp"
#include "io/file.hpp"
#include "report/history_reader.hpp"

namespace tessera {
namespace {

const std::string kBothViews = "fedavg";  // its post view is a baseline of its own

/// Reads a finished cell, resumes an unfinished one, runs the rest. With --force a cell that cannot
/// be continued (another configuration, damaged) is run anew.
Result<nlohmann::json> play(const PlannedCell& cell, RunArgs args, const std::string& out,
                            const std::string& label) {
  const bool force = std::exchange(args.force, false);
  args.resume = true;
  auto summary = run_cell(cell.experiment, args, out, label);
  if (summary.ok() || !force || error_of(summary.status()) != Error::kInvalid) return summary;
  args.force = true;
  return run_cell(cell.experiment, args, out, label);
}

/// Runs cells one by one and tells how far it is.
struct Player {
  const CompareArgs& args;
  std::string out;
  size_t count = 0, done = 0;

  /// The rows that a cell gives: its headline, and FedAvg's post view.
  Result<std::vector<Cell>> cells_of(const PlannedCell& planned, const std::string& row) {
    const auto dir = out + "/" + planned.name;
    const auto label = fmt::format("[{}/{}] {}", ++done, count, planned.name);
    const auto summary = play(planned, args.run, dir, label);
    if (!summary.ok() && error_of(summary.status()) == Error::kInterrupted)
      return fail(Error::kInterrupted,
                  "stopped in {} ({} of {}); the same command continues from there", dir, done,
                  count);
    TESSERA_RETURN_IF_ERROR(summary.status());
    TESSERA_ASSIGN(const auto history, read_history(dir + "/history.sqlite"));
    std::vector<Cell> cells;
    for (const auto* view : {"", "post"}) {
      const auto& method = planned.experiment.method;
      if (*view && (method.name != kBothViews || history.meta.headline == view)) continue;
      auto cell = make_cell(*summary, history, view);
      if (!cell.ok()) return at_place(cell.status(), dir);
      cell->label = *view ? fmt::format("{} ({})", row, view) : row;
      cell->run = planned.name, cell->reference = method.pooled;
      cells.push_back(*std::move(cell));
    }
    return cells;
  }

  /// The candidate to go on with. One whose training fails, as at too high a rate, is left out and
  /// said so. The runs of the others stay where they are, for people to look at.
  Result<const Candidate*> choose(const PlannedRow& row) {
    const Candidate* best = &row.candidates[0];
    if (!row.tuned()) return best;
    double most = -1;
    Status failed;
    for (const auto& candidate : row.candidates) {
      const auto cells = cells_of(candidate.cells[0], candidate.label);
      if (!cells.ok() && error_of(cells.status()) == Error::kInternal) {
        failed = at_place(cells.status(), candidate.cells[0].name);
        print_error(failed);
        continue;
      }
      TESSERA_RETURN_IF_ERROR(cells.status());
      const double validation = cells->front().validation;
      if (std::isnan(validation))
        return fail(Error::kInvalid,
                    "{}: no validation accuracy to choose a setting by; data.val must be above 0",
                    candidate.cells[0].name);
      if (validation > most) most = validation, best = &candidate;
    }
    if (most < 0) return failed;
    return best;
  }
};

Status write_tables(const std::string& out, const Comparison& comparison) {
  const auto table = comparison.table();
  TESSERA_RETURN_IF_ERROR(
      write_text(out + "/table.md", table.markdown() + "\n" + comparison.caption() + "\n"));
  TESSERA_RETURN_IF_ERROR(write_text(out + "/table.csv", table.csv()));
  return write_text(out + "/table.json", comparison.json().dump(2) + "\n");
}

}  // namespace

Status compare_command(const CompareArgs& args) {
  TESSERA_ASSIGN(const auto rows, plan_comparison(args));
  Player player{args, args.run.out};
  if (player.out.empty())
    player.out = fmt::format("runs/{}/compare", rows[0].candidates[0].cells[0].experiment.run.name);
  for (const auto& row : rows)
    player.count += row.candidates[0].cells.size() + (row.tuned() ? row.candidates.size() : 0);
  std::vector<Cell> cells;
  for (const auto& row : rows) {
    TESSERA_ASSIGN(const auto* chosen, player.choose(row));
    for (const auto& planned : chosen->cells) {
      TESSERA_ASSIGN(const auto more, player.cells_of(planned, chosen->label));
      cells.insert(cells.end(), more.begin(), more.end());
    }
  }
  const auto comparison = compare_cells(cells);
  TESSERA_RETURN_IF_ERROR(write_tables(player.out, comparison));
  TESSERA_RETURN_IF_ERROR(write_comparison_report(player.out, comparison.json()));
  if (args.run.json) return print(comparison.json().dump(2) + "\n");
  return print(fmt::format("{}\n{}\n{}/report.html\n", comparison.table().text(),
                           comparison.caption(), player.out));
}

}  // namespace tessera

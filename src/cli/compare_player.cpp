#include "cli/compare_player.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "base/key.hpp"
#include "cli/cell_report.hpp"
#include "cli/output.hpp"
#include "report/history_reader.hpp"
#include "run/finished.hpp"
#include "run/run_directory.hpp"

namespace tessera {
namespace {

const std::string kBothViews = "fedavg";  // its post view is a baseline of its own

}  // namespace

ComparePlayer::ComparePlayer(const CompareArgs& args, const std::vector<PlannedRow>& rows,
                             const std::map<std::string, std::string>& digests, std::string out)
    : args_(args), rows_(rows), digests_(digests), out_(std::move(out)) {
  for (const auto& row : rows_)
    if (row.cannot_run.empty())
      count_ += row.candidates[0].cells.size() + (row.tuned() ? row.candidates.size() : 0);
}

Result<std::vector<RunFigures>> ComparePlayer::play() {
  TESSERA_RETURN_IF_ERROR(read_finished_cells());
  std::vector<RunFigures> out;
  for (const auto& row : rows_) {
    if (!row.cannot_run.empty()) {
      RunFigures none{.label = row.candidates[0].label, .failed = row.cannot_run};
      none.left_out = true;
      out.push_back(std::move(none));
      continue;
    }
    std::vector<RunFigures> cells;
    TESSERA_ASSIGN(const auto* chosen, choose(row, cells));
    if (chosen) {
      cells.clear();
      for (const auto& planned : chosen->cells) {
        TESSERA_ASSIGN(auto more, cells_of(planned, chosen->label));
        std::move(more.begin(), more.end(), std::back_inserter(cells));
      }
    }
    std::move(cells.begin(), cells.end(), std::back_inserter(out));
  }
  return out;
}

Status ComparePlayer::read_finished_cells() {
  for (const auto& row : rows_) {
    if (!row.cannot_run.empty()) continue;
    for (const auto& candidate : row.candidates) {
      // Of several settings one is chosen on the first seed; which, and so the rest, is not known.
      const auto known = row.tuned() ? 1 : candidate.cells.size();
      for (size_t i = 0; i < known; ++i)
        TESSERA_RETURN_IF_ERROR(read_if_finished(candidate.cells[i]));
    }
  }
  return ok();
}

Status ComparePlayer::read_if_finished(const PlannedRun& cell) {
  const auto dir = directory(cell);
  if (finished_.contains(dir)) return ok();
  TESSERA_ASSIGN(const auto state, inspect_run(dir));
  if (state != RunState::kFinished) return ok();
  auto summary = read_finished(dir, cell.experiment.toml());
  const auto status = summary.ok() ? same_data(cell, *summary) : summary.status();
  if (status.ok()) finished_.emplace(dir, *std::move(summary));
  const bool anew = !status.ok() && args_.run.force && error_of(status) == Error::kInvalid;
  return anew ? ok() : status;
}

/// Cells of other data than the rest would make a table of two experiments.
Status ComparePlayer::same_data(const PlannedRun& cell, const nlohmann::json& summary) {
  const auto& now = digests_.at(data_of(cell.experiment));
  const auto theirs = summary["data_digest"].get<std::string>();
  if (theirs == now) return ok();
  std::string beside;
  for (const auto& row : rows_)
    for (const auto& other : row.candidates[0].cells)
      if (beside.empty() && other.name != cell.name)
        beside = fmt::format(", so it cannot stand in one table with {}", directory(other));
  return fail(Error::kInvalid,
              "{}: its data have changed since (digest {}, now {}){}; run such cells anew with "
              "--force, or choose another --out",
              directory(cell), theirs.substr(0, 12), now.substr(0, 12), beside);
}

Result<nlohmann::json> ComparePlayer::summary_of(const PlannedRun& cell, const std::string& label) {
  const auto dir = directory(cell);
  TESSERA_RETURN_IF_ERROR(read_if_finished(cell));
  if (const auto found = finished_.find(dir); found != finished_.end()) {
    if (!std::filesystem::exists(dir + "/report.html"))
      TESSERA_RETURN_IF_ERROR(write_run_report(dir));
    return found->second;
  }
  auto run = args_.run;
  run.resume = true, run.force = false;
  // Of other seeds the same would be said again.
  const auto data = data_of(cell.experiment);
  run.tell_data = told_.insert(data.substr(data.find('\n'))).second;
  auto summary = run_cell(cell.experiment, run, dir, label);
  if (!summary.ok() && args_.run.force && error_of(summary.status()) == Error::kInvalid) {
    run.resume = false, run.force = true;
    summary = run_cell(cell.experiment, run, dir, label);
  }
  if (summary.ok()) finished_.emplace(dir, *summary);
  return summary;
}

Result<std::vector<RunFigures>> ComparePlayer::cells_of(const PlannedRun& planned,
                                                        const std::string& row) {
  const auto dir = directory(planned);
  const auto label = fmt::format("[{}/{}] {}", ++done_, count_, planned.name);
  const auto summary = summary_of(planned, label);
  if (!summary.ok() && error_of(summary.status()) == Error::kInterrupted)
    return fail(Error::kInterrupted,
                "stopped in {} ({} of {}); the same command continues from there", dir, done_,
                count_);
  const bool broke = !summary.ok() && error_of(summary.status()) == Error::kInternal;
  if (!summary.ok() && !broke) return summary.status();
  RunHistory history;
  if (!broke) {
    TESSERA_ASSIGN(history, read_history(dir + "/history.sqlite"));
  }
  const auto& method = planned.experiment.method;
  std::vector<RunFigures> cells;
  for (const auto* view : {"", "post"}) {
    if (*view && (method.name != kBothViews || planned.experiment.headline() == View::kPost))
      continue;
    RunFigures cell{.seed = planned.experiment.run.seed, .failed = message(summary.status())};
    if (!broke) {
      auto made = make_cell(*summary, history, view, planned.experiment.eval.metric);
      if (!made.ok()) return at_place(made.status(), dir);
      cell = *std::move(made);
    }
    cell.label = *view ? fmt::format("{} ({})", row, view) : row;
    cell.run = planned.name, cell.reference = method.pooled;
    cells.push_back(std::move(cell));
  }
  return cells;
}

Result<const Candidate*> ComparePlayer::choose(const PlannedRow& row,
                                               std::vector<RunFigures>& failed) {
  if (!row.tuned()) return &row.candidates[0];
  const Candidate* best = nullptr;
  const auto& metric = metric_of(row.candidates[0].cells[0].experiment.eval.metric);
  double most = std::nan("");
  for (const auto& candidate : row.candidates) {
    TESSERA_ASSIGN(auto cells, cells_of(candidate.cells[0], candidate.label));
    const auto& first = cells.front();
    if (!first.failed.empty()) {
      print_error(fail(Error::kInternal, "{}: {}", first.run, first.failed));
      if (failed.empty()) failed = std::move(cells);
      continue;
    }
    if (std::isnan(first.validation))
      return fail(Error::kInvalid,
                  "{}: no validation {} to choose a setting by; data.val must be above 0",
                  candidate.cells[0].name, metric.title);
    if (metric.better(first.validation, most)) most = first.validation, best = &candidate;
  }
  return best;
}

}  // namespace tessera

#include "cli/compare_player.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "base/key.hpp"
#include "cli/cell_report.hpp"
#include "cli/output.hpp"
#include "cli/spread.hpp"
#include "report/history_reader.hpp"
#include "run/config_text.hpp"
#include "run/finished.hpp"
#include "run/run_directory.hpp"

namespace tessera {
namespace {

std::string choice_text(const PlannedRow& row, const Candidate& chosen) {
  std::vector<Variant> all;
  for (const auto& candidate : row.candidates) all.push_back(candidate.variant);
  const auto note = note_of_choice(chosen.variant, all);
  return note.text.empty() ? "" : "chosen on validation data: " + note.text;
}

}  // namespace

ComparePlayer::ComparePlayer(const CompareArgs& args, const std::vector<PlannedRow>& rows,
                             const std::map<std::string, std::string>& digests, std::string out)
    : args_(args), rows_(rows), digests_(digests), out_(std::move(out)) {
  for (const auto& row : rows_) {
    if (!row.cannot_run.empty()) continue;
    for (const auto& candidate : row.candidates)
      for (const auto& cell : candidate.cells) {
        expected_.insert(cell.name);
        if (row.tuned()) break;  // on the first seed one is chosen
      }
    if (row.tuned()) open_ += row.candidates[0].cells.size() - 1;
  }
}

Result<std::vector<RunFigures>> ComparePlayer::play() {
  TESSERA_RETURN_IF_ERROR(read_finished_cells());
  std::vector<RunFigures> out;
  for (const auto& row : rows_) {
    if (!row.cannot_run.empty() && row.beside) continue;
    if (!row.cannot_run.empty()) {
      RunFigures none{.label = in_view(row.candidates[0].label, row.view),
                      .failed = row.cannot_run};
      none.left_out = true;
      out.push_back(std::move(none));
      continue;
    }
    std::vector<RunFigures> cells;
    TESSERA_ASSIGN(const auto* chosen, choose(row, cells));
    if (chosen) {
      cells.clear();
      for (const auto& planned : chosen->cells) {
        TESSERA_ASSIGN(auto cell, cell_of(planned, row, chosen->label));
        cells.push_back(std::move(cell));
      }
      cells.front().note = choice_text(row, *chosen);
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
  // Of other seeds the same would be said again.
  const auto data = data_of(cell.experiment);
  const bool tell = told_.insert(data.substr(data.find('\n'))).second;
  auto summary = play_planned(args_, cell, dir, label, args_.run.stop, tell, last_);
  if (summary.ok()) finished_.emplace(dir, *summary);
  return summary;
}

Result<RunFigures> ComparePlayer::cell_of(const PlannedRun& planned, const PlannedRow& row,
                                          const std::string& label) {
  const auto dir = directory(planned);
  begun_.insert(planned.name);
  if (!broken_.contains(dir)) {
    const auto status =
        summary_of(planned, fmt::format("[{}/{}] {}", begun_.size(), count(), planned.name))
            .status();
    if (!status.ok() && error_of(status) == Error::kInterrupted) return stopped_in(dir);
    if (!status.ok() && error_of(status) != Error::kInternal) return status;
    if (!status.ok()) broken_[dir] = message(status);
  }
  RunFigures cell{.seed = planned.experiment.run.seed};
  if (const auto broken = broken_.find(dir); broken != broken_.end()) {
    cell.failed = broken->second;
  } else {
    TESSERA_ASSIGN(const auto history, read_history(dir + "/history.sqlite"));
    auto made = make_cell(finished_.at(dir), history, row.view, planned.experiment.eval.metric);
    if (!made.ok()) return at_place(made.status(), dir);
    cell = *std::move(made);
  }
  cell.label = in_view(label, row.view);
  cell.run = planned.name, cell.reference = planned.experiment.method.pooled;
  return cell;
}

Status ComparePlayer::stopped_in(const std::string& dir) const {
  return fail(Error::kInterrupted,
              "stopped in {} ({} of {}); the same command continues from there", dir, begun_.size(),
              count());
}

Result<const Candidate*> ComparePlayer::choose(const PlannedRow& row,
                                               std::vector<RunFigures>& failed) {
  if (!row.tuned()) return &row.candidates[0];
  if (const auto known = choices_.find(&row); known != choices_.end()) {
    failed = known->second.second;
    return known->second.first;
  }
  TESSERA_ASSIGN(const auto* chosen, try_candidates(row, failed));
  if (chosen)
    for (const auto& planned : chosen->cells) expected_.insert(planned.name);
  open_ -= row.candidates[0].cells.size() - 1;
  choices_.emplace(&row, std::pair{chosen, failed});
  return chosen;
}

Result<const Candidate*> ComparePlayer::try_candidates(const PlannedRow& row,
                                                       std::vector<RunFigures>& failed) {
  const Candidate* best = nullptr;
  const auto& metric = metric_of(row.candidates[0].cells[0].experiment.eval.metric);
  double most = std::nan("");
  for (const auto& candidate : row.candidates) {
    TESSERA_ASSIGN(const auto first, cell_of(candidate.cells[0], row, candidate.label));
    if (!first.failed.empty()) {
      print_error(fail(Error::kInternal, "{}: {}", first.run, first.failed));
      if (failed.empty()) failed.push_back(first);
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

Result<std::optional<std::string>> ComparePlayer::next_cell() {
  const auto to_give = [&](const PlannedRun& cell) -> std::optional<std::string> {
    if (has_ended(cell) || !given_.insert(directory(cell)).second) return std::nullopt;
    begun_.insert(cell.name);
    return key_of(cell);
  };
  for (const auto& row : rows_) {
    if (!row.cannot_run.empty()) continue;
    bool open = false;
    for (const auto& candidate : row.candidates) {
      const auto known = row.tuned() ? 1 : candidate.cells.size();
      for (size_t i = 0; i < known; ++i) {
        if (auto out = to_give(candidate.cells[i])) return out;
        open = open || !has_ended(candidate.cells[i]);
      }
    }
    if (!row.tuned() || open) continue;
    std::vector<RunFigures> failed;
    TESSERA_ASSIGN(const auto* chosen, choose(row, failed));
    if (!chosen) continue;
    for (const auto& cell : chosen->cells) {
      TESSERA_RETURN_IF_ERROR(read_if_finished(cell));
      if (auto out = to_give(cell)) return out;
    }
  }
  return std::optional<std::string>();
}

Status ComparePlayer::take_ended(const PlannedRun& cell, const Status& how) {
  const auto dir = directory(cell);
  if (!how.ok() && error_of(how) == Error::kInterrupted) return stopped_in(dir);
  if (!how.ok() && error_of(how) == Error::kInternal) {
    broken_[dir] = message(how);
    return ok();
  }
  TESSERA_RETURN_IF_ERROR(how);
  TESSERA_RETURN_IF_ERROR(read_if_finished(cell));
  if (has_ended(cell)) return ok();
  return fail(Error::kIo,
              "{} was played but is not to be seen on rank 0; --spread cells needs an --out that "
              "all ranks share",
              dir);
}

Status ComparePlayer::spread(RankDesk& desk) {
  TESSERA_RETURN_IF_ERROR(read_finished_cells());
  std::map<std::string, const PlannedRun*> cells;
  for (const auto& row : rows_)
    for (const auto& candidate : row.candidates)
      for (const auto& cell : candidate.cells) cells.emplace(key_of(cell), &cell);
  const SpreadCells spread{
      .next = [&] { return next_cell(); },
      .label =
          [&](const std::string& key) {
            return fmt::format("[{}/{}] {}", begun_.size(), count(), cells.at(key)->name);
          },
      .play =
          [&](const std::string& key, const std::string& label, const std::atomic<bool>& stop) {
            const auto& cell = *cells.at(key);
            const auto data = data_of(cell.experiment);
            const bool tell = told_.insert(data.substr(data.find('\n'))).second;
            return play_planned(args_, cell, directory(cell), label, &stop, tell, last_).status();
          },
      .ended = [&](const std::string& key,
                   const Status& how) { return take_ended(*cells.at(key), how); }};
  return spread_cells(desk, spread, args_.run.stop, args_.run.quiet);
}

Result<nlohmann::json> play_planned(const CompareArgs& args, const PlannedRun& cell,
                                    const std::string& dir, const std::string& label,
                                    const std::atomic<bool>* stop, bool tell,
                                    LastFederation& last) {
  auto run = args.run;
  TESSERA_ASSIGN(run.federation, last.of(cell.experiment));
  run.resume = true, run.force = false, run.tell_data = tell, run.stop = stop;
  auto summary = run_cell(cell.experiment, run, dir, label);
  if (!summary.ok() && args.run.force && error_of(summary.status()) == Error::kInvalid) {
    run.resume = false, run.force = true;
    summary = run_cell(cell.experiment, run, dir, label);
  }
  return summary;
}

std::string key_of(const PlannedRun& cell) {
  return fmt::format("{} {}", cell.name, config_digest(cell.experiment.toml()));
}

std::string comparison_directory(const CompareArgs& args, const std::vector<PlannedRow>& rows) {
  if (!args.run.out.empty()) return args.run.out;
  return fmt::format("runs/{}/compare", rows[0].candidates[0].cells[0].experiment.run.name);
}

}  // namespace tessera

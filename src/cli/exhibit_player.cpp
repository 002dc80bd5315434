#include "cli/exhibit_player.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/text.hpp"
#include "cli/cell_report.hpp"
#include "cli/compare_check.hpp"
#include "cli/compare_plan.hpp"
#include "cli/exhibit_attacks.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "io/file.hpp"
#include "report/history_reader.hpp"

namespace tessera {
namespace {

/// What a cell cannot help: its data are missing, or its method refuses them.
bool is_left_out(const Status& status) {
  return error_of(status) == Error::kNotFound || error_of(status) == Error::kInvalid;
}

}  // namespace

ExhibitPlayer::ExhibitPlayer(const ReproduceArgs& args, const ExhibitPlan& plan, Records& records)
    : args_(args), plan_(plan), records_(records) {
  for (const auto& slot : plan_.slots)
    for (const auto& candidate : slot.candidates)
      for (size_t seed = 0; seed < candidate.digests.size(); ++seed)
        cells_.emplace(candidate.digests[seed], Cell{&slot, &candidate, seed});
}

Status ExhibitPlayer::play() {
  for (const auto* column : plan_.columns)
    for (size_t seed = 0; seed < plan_.seeds.size(); ++seed)
      for (const auto* row : plan_.rows)
        for (const auto& cell : open_cells(plan_.slot(*row, *column), seed))
          TESSERA_RETURN_IF_ERROR(play_cell(cell));
  return ok();
}

std::vector<ExhibitPlayer::Cell> ExhibitPlayer::open_cells(const ExhibitSlot& slot,
                                                           size_t seed) const {
  std::vector<Cell> out;
  const auto add = [&](const ExhibitCandidate& candidate) {
    const Cell cell{&slot, &candidate, seed};
    if (!records_.contains(cell.digest()) && !left_out_.contains(cell.digest()))
      out.push_back(cell);
  };
  if (seed == 0) {
    for (const auto& candidate : slot.candidates) add(candidate);
  } else if (const auto* chosen = Evidence(plan_, records_).chosen(slot)) {
    add(*chosen);  // none if some of the first seed's were left out
  }
  return out;
}

Status ExhibitPlayer::play_cell(const Cell& cell) {
  // Candidates may be alike in their settings.
  if (records_.contains(cell.digest()) || left_out_.contains(cell.digest())) return ok();
  return take(cell, attempt(cell, label(cell.digest()), args_.stop));
}

std::optional<std::string> ExhibitPlayer::next_cell(std::set<std::string>& given) {
  for (const auto* column : plan_.columns)
    for (size_t seed = 0; seed < plan_.seeds.size(); ++seed)
      for (const auto* row : plan_.rows)
        for (const auto& cell : open_cells(plan_.slot(*row, *column), seed))
          if (given.insert(cell.digest()).second) return cell.digest();
  return std::nullopt;
}

Status ExhibitPlayer::play_apart(const std::string& digest, const std::string& label,
                                 const std::atomic<bool>* stop) {
  return attempt(cells_.at(digest), label, stop).status();
}

Status ExhibitPlayer::take_ended(const std::string& digest, const Status& how) {
  const auto& cell = cells_.at(digest);
  if (!how.ok()) return take(cell, how);
  auto record = read_record(record_path(cell));
  if (!record.ok() && error_of(record.status()) != Error::kInvalid)
    return fail(Error::kIo,
                "{} was written but is not to be seen on rank 0; --spread cells needs --records "
                "that all ranks share",
                record_path(cell));
  TESSERA_RETURN_IF_ERROR(record.status());
  return take(cell, std::move(record));
}

Result<CellRecord> ExhibitPlayer::attempt(const Cell& cell, const std::string& label,
                                          const std::atomic<bool>* stop) {
  auto made = cell.trains() ? run(cell, label, stop) : data_record(cell.experiment());
  if (cell.trains() && !made.ok() && error_of(made.status()) == Error::kInternal)
    made = failed_record(cell.experiment(), message(made.status()));
  TESSERA_RETURN_IF_ERROR(made.status());
  auto& record = *made;
  record.digest = cell.digest();
  record.settings.insert(record.settings.end(), plan_.attacks.begin(), plan_.attacks.end());
  record.exhibit = plan_.exhibit->id, record.size = plan_.size;
  record.row = cell.slot->row->name, record.column = cell.slot->column->name;
  const auto path = record_path(cell);
  TESSERA_RETURN_IF_ERROR(make_dirs(std::filesystem::path(path).parent_path()));
  TESSERA_RETURN_IF_ERROR(write_text(
      path, record.json().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
  return made;
}

Status ExhibitPlayer::take(const Cell& cell, Result<CellRecord> record) {
  const auto status = record.status();
  if (status.ok()) {
    ran_ += cell.trains() && record->failed.empty();
    records_.insert_or_assign(cell.digest(), *std::move(record));
    return ok();
  }
  if (error_of(status) == Error::kInterrupted)
    return fail(Error::kInterrupted,
                "stopped in {} ({} of {} cells are there); the same command "
                "continues from there",
                plan_.exhibit->id, cells_done(plan_, records_), cells_needed(plan_, records_));
  if (!is_left_out(status)) return status;
  left_out_.insert(cell.digest());
  leave_out(cell, message(status));
  return ok();
}

Result<CellRecord> ExhibitPlayer::run(const Cell& cell, const std::string& label,
                                      const std::atomic<bool>* stop) {
  // What comes out does not depend on what is saved when. States after every round would take a
  // third of a short cell's time.
  auto experiment = cell.experiment();
  experiment.federation.checkpoint_every = 0;
  const auto key = data_of(experiment);
  if (const auto gone = missing_.find(key.substr(key.find('\n'))); gone != missing_.end())
    return fail(Error::kNotFound, "{}", gone->second);
  const auto federation = last_.of(experiment);
  if (!federation.ok()) {
    if (error_of(federation.status()) == Error::kNotFound)
      missing_[key.substr(key.find('\n'))] = message(federation.status());
    return federation.status();
  }
  RunArgs run;
  run.threads = args_.threads, run.quiet = args_.quiet, run.stop = stop;
  run.resume = true, run.tell_data = false, run.federation = *federation, run.page = args_.keep;
  const auto dir =
      fmt::format("{}/{}/cells/{}", args_.out, plan_.size, cell.digest().substr(0, 16));
  const bool begun = std::filesystem::exists(dir);
  auto ended = run_cell(experiment, run, dir, label);
  // The directory is our own scratch: what another version left there, or is damaged, goes.
  if (begun && !ended.ok() && error_of(ended.status()) == Error::kInvalid) {
    run.resume = false, run.force = true;
    ended = run_cell(experiment, run, dir, label);
  }
  TESSERA_ASSIGN(const auto summary, std::move(ended));
  TESSERA_ASSIGN(const auto history, read_history(dir + "/history.sqlite"));
  auto record = make_record(cell.experiment(), summary, history);
  if (!plan_.attacks.empty() && record.failed.empty()) {
    LiveLine line(args_.quiet);
    const AttackEffort effort{args_.threads, stop, cell.seed == 0, [&](const std::string& stage) {
                                line.update([text = label + "  " + stage](int) { return text; });
                              }};
    TESSERA_ASSIGN(record.attacks, attack_cell(cell.experiment(), plan_, effort));
    line.finish();
  }
  std::error_code ignored;
  if (!args_.keep) {
    std::filesystem::remove_all(dir, ignored);
    std::filesystem::remove(std::filesystem::path(dir).parent_path(), ignored);  // if it is empty
  }
  return record;
}

std::string ExhibitPlayer::record_path(const Cell& cell) const {
  return fmt::format("{}/{}/{}/{}-{}-s{}-{}.json", args_.records, plan_.exhibit->id, plan_.size,
                     file_name(cell.slot->row->name), file_name(cell.slot->column->name),
                     cell.experiment().run.seed, cell.digest().substr(0, 8));
}

void ExhibitPlayer::leave_out(const Cell& cell, const std::string& reason) {
  // Of a set that is not there once, not for every method.
  auto remark = fmt::format("left out: {}: {}", cell.slot->column->name, first_line(reason));
  if (std::find(remarks_.begin(), remarks_.end(), remark) != remarks_.end()) return;
  print_note(plan_.exhibit->id + ": " + remark);
  remarks_.push_back(std::move(remark));
}

double ExhibitPlayer::seconds_to_go() const {
  struct Sum {
    double seconds = 0, count = 0;
  };
  std::map<const PaperRow*, Sum> by_row;
  Sum all;
  std::vector<const PaperRow*> missing;
  for (const auto& slot : plan_.slots) {
    if (slot.candidates.empty()) continue;
    const auto& candidate = slot.candidates.front();
    for (const auto& digest : candidate.digests) {
      const auto found = records_.find(digest);
      if (found == records_.end()) {
        missing.push_back(slot.row);
        continue;
      }
      for (auto* sum : {&all, &by_row[slot.row]})
        sum->seconds += found->second.wall_seconds, sum->count += 1;
    }
  }
  double out = 0;
  for (const auto* row : missing) {
    const auto& sum = by_row[row].count > 0 ? by_row[row] : all;
    out += sum.seconds / sum.count;
  }
  return out;
}

std::string ExhibitPlayer::label(const std::string& digest) const {
  const auto& cell = cells_.at(digest);
  const double left = seconds_to_go();
  return fmt::format("[{}/{}{}] {}, {}, seed {}", cells_done(plan_, records_) + 1,
                     cells_needed(plan_, records_),
                     std::isfinite(left) ? ", " + human_seconds(left) + " to go" : "",
                     cell.slot->row->name, cell.slot->column->name, cell.experiment().run.seed);
}

}  // namespace tessera

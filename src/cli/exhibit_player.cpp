#include "cli/exhibit_player.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/key.hpp"
#include "base/text.hpp"
#include "cli/cell_report.hpp"
#include "cli/compare_check.hpp"
#include "cli/compare_plan.hpp"
#include "cli/output.hpp"
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
    : args_(args), plan_(plan), records_(records) {}

Status ExhibitPlayer::play() {
  for (const auto* column : plan_.columns)
    for (size_t seed = 0; seed < plan_.seeds.size(); ++seed)
      for (const auto* row : plan_.rows)
        TESSERA_RETURN_IF_ERROR(play_slot(plan_.slot(*row, *column), seed));
  return ok();
}

Status ExhibitPlayer::play_slot(const ExhibitSlot& slot, size_t seed) {
  if (seed == 0) {
    for (const auto& candidate : slot.candidates)
      TESSERA_RETURN_IF_ERROR(play_cell(slot, candidate, seed));
    return ok();
  }
  // Some of the first seed's may have been left out: then nothing is chosen.
  const auto* chosen = Evidence(plan_, records_).chosen(slot);
  return chosen ? play_cell(slot, *chosen, seed) : ok();
}

Status ExhibitPlayer::play_cell(const ExhibitSlot& slot, const ExhibitCandidate& candidate,
                                size_t seed) {
  const auto& digest = candidate.digests[seed];
  if (records_.contains(digest)) return ok();
  const auto& experiment = candidate.by_seed[seed];
  if (slot.row->method.empty()) {
    auto record = data_record(experiment);
    if (!record.ok() && is_left_out(record.status())) {
      leave_out(slot, message(record.status()));
      return ok();
    }
    TESSERA_RETURN_IF_ERROR(record.status());
    return keep(slot, *std::move(record));
  }
  auto record = run(slot, experiment, digest);
  if (record.ok()) return keep(slot, *std::move(record));
  if (error_of(record.status()) == Error::kInterrupted)
    return fail(Error::kInterrupted,
                "stopped in {} ({} of {} cells are there); the same command "
                "continues from there",
                plan_.exhibit->id, cells_done(plan_, records_), cells_needed(plan_, records_));
  if (error_of(record.status()) == Error::kInternal)
    return keep(slot, failed_record(experiment, message(record.status())));
  if (!is_left_out(record.status())) return record.status();
  leave_out(slot, message(record.status()));
  return ok();
}

Result<const Federation*> ExhibitPlayer::federation_of(const Experiment& experiment) {
  const auto key = data_of(experiment);
  if (loaded_ == key) return &*federation_;
  loaded_.clear(), federation_.reset();  // never two in memory
  auto loaded = load_federation(
      experiment.data, derive(static_cast<uint64_t>(experiment.run.seed), Purpose::kPartition));
  TESSERA_RETURN_IF_ERROR(loaded.status());
  federation_ = *std::move(loaded), loaded_ = key;
  return &*federation_;
}

Result<CellRecord> ExhibitPlayer::run(const ExhibitSlot& slot, const Experiment& experiment,
                                      const std::string& digest) {
  const auto key = data_of(experiment);
  if (const auto gone = missing_.find(key.substr(key.find('\n'))); gone != missing_.end())
    return fail(Error::kNotFound, "{}", gone->second);
  const auto federation = federation_of(experiment);
  if (!federation.ok()) {
    if (error_of(federation.status()) == Error::kNotFound)
      missing_[key.substr(key.find('\n'))] = message(federation.status());
    return federation.status();
  }
  RunArgs run;
  run.threads = args_.threads, run.quiet = args_.quiet, run.stop = args_.stop;
  run.resume = true, run.tell_data = false, run.federation = *federation, run.page = args_.keep;
  const auto dir = fmt::format("{}/{}/cells/{}", args_.out, plan_.size, digest.substr(0, 16));
  TESSERA_ASSIGN(const auto summary, run_cell(experiment, run, dir, label(slot, experiment)));
  TESSERA_ASSIGN(const auto history, read_history(dir + "/history.sqlite"));
  auto record = make_record(experiment, summary, history);
  ++ran_;
  std::error_code ignored;
  if (!args_.keep) {
    std::filesystem::remove_all(dir, ignored);
    std::filesystem::remove(std::filesystem::path(dir).parent_path(), ignored);  // if it is empty
  }
  return record;
}

Status ExhibitPlayer::keep(const ExhibitSlot& slot, CellRecord record) {
  record.exhibit = plan_.exhibit->id, record.size = plan_.size;
  record.row = slot.row->name, record.column = slot.column->name;
  const auto dir = fmt::format("{}/{}/{}", args_.records, plan_.exhibit->id, plan_.size);
  TESSERA_RETURN_IF_ERROR(make_dirs(dir));
  TESSERA_RETURN_IF_ERROR(write_text(
      fmt::format("{}/{}-{}-s{}-{}.json", dir, file_name(record.row), file_name(record.column),
                  record.seed, record.digest.substr(0, 8)),
      record.json().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
  const auto digest = record.digest;
  records_.insert_or_assign(digest, std::move(record));
  return ok();
}

void ExhibitPlayer::leave_out(const ExhibitSlot& slot, const std::string& reason) {
  // Of a set that is not there once, not for every method.
  auto remark = fmt::format("left out: {}: {}", slot.column->name, first_line(reason));
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

std::string ExhibitPlayer::label(const ExhibitSlot& slot, const Experiment& experiment) const {
  const double left = seconds_to_go();
  return fmt::format("[{}/{}{}] {}, {}, seed {}", cells_done(plan_, records_) + 1,
                     cells_needed(plan_, records_),
                     std::isfinite(left) ? ", " + human_seconds(left) + " to go" : "",
                     slot.row->name, slot.column->name, experiment.run.seed);
}

}  // namespace tessera

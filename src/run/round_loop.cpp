#include "run/round_loop.hpp"

#include <sys/resource.h>

#include <filesystem>

#include "base/blas.hpp"
#include "io/file.hpp"
#include "run/config_text.hpp"
#include "run/finished.hpp"
#include "run/rank_places.hpp"
#include "run/summary.hpp"
#include "train/virtual_steps.hpp"

namespace tessera {
namespace {

constexpr double kCheckpointSeconds = 20;

// States stay where they are: a run goes on with as many processes as it began with.
Status same_ranks(const std::string& dir, const std::string& places, int64_t ranks) {
  const auto before = places.empty() ? 1 : ranks_in(places);
  if (before == ranks) return ok();
  if (before == 1)
    return fail(Error::kInvalid,
                "{}: was played by one process, which has the states of all clients; continue it "
                "without mpirun, or start anew with --force",
                dir);
  return fail(Error::kInvalid,
              "{}: was played by {} ranks, which have the states of their clients; continue it "
              "with mpirun -n {}, or start anew with --force",
              dir, before, before);
}

int64_t peak_rss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace

Status same_data(const std::string& dir, const std::string& theirs, const std::string& ours) {
  if (theirs == ours) return ok();
  return fail(
      Error::kInvalid,
      "{}: its data have changed since (digest {}, here {}); use the files it began with, or "
      "start anew with --force",
      dir, theirs.substr(0, 12), ours.substr(0, 12));
}

RoundLoop::RoundLoop(LoopParts parts)
    : parts_(std::move(parts)),
      config_(parts_.experiment.toml()),
      privacy_(parts_.experiment, parts_.roster.train_sizes()) {}

void RoundLoop::note_privacy() {
  privacy_.advance(round_);
  if (const auto spent = privacy_.clients()) epsilon_ = spent->epsilon;
  if (const auto spent = privacy_.samples()) sample_epsilon_ = spent->epsilon;
}

void RoundLoop::tell(std::optional<RunStage> stage) {
  if (!parts_.on_progress) return;
  const std::scoped_lock guard(progress_);
  if (stage) stage_ = *stage;
  const double seconds = wall_seconds() - started_;
  const auto rounds = parts_.experiment.run.rounds;
  const double done = static_cast<double>(round_ - first_round_);
  parts_.on_progress(
      {.round = round_,
       .rounds = rounds,
       .stage = stage_,
       .metric = parts_.experiment.eval.metric,
       .score = score_,
       .loss = loss_,
       .seconds = seconds,
       .eta = done > 0 ? seconds / done * static_cast<double>(rounds - round_) : std::nan(""),
       .clients_per_second = seconds > 0 ? static_cast<double>(clients_done_) / seconds : 0,
       .epsilon = epsilon_,
       .sample_epsilon = sample_epsilon_});
}

void RoundLoop::client_done() {
  {
    const std::scoped_lock guard(progress_);
    ++clients_done_;
  }
  tell();
}

Status RoundLoop::start() {
  TESSERA_RETURN_IF_ERROR(parts_.driver.begin());
  TESSERA_RETURN_IF_ERROR(clear_run(parts_.out));
  TESSERA_RETURN_IF_ERROR(write_file_atomic(path("config.toml"), bytes_of(config_)));
  auto facts = run_facts(parts_.experiment, parts_.roster, parts_.session.model(), config_);
  if (!parts_.kernels.empty()) facts.emplace_back("kernels", parts_.kernels);
  TESSERA_ASSIGN(auto history, History::create(path("history.sqlite"), facts, parts_.roster));
  history_ = std::move(history);
  TESSERA_ASSIGN(auto file, CheckpointFile::create(parts_.out));
  checkpoint_ = std::move(file);
  TESSERA_ASSIGN(place_, RunPlace::remember(parts_.out));
  if (parts_.on_start) TESSERA_RETURN_IF_ERROR(parts_.on_start());
  return save();
}

Status RoundLoop::resume() {
  auto found = CheckpointFile::open(parts_.out, CheckpointFile::Clients::kLater);
  if (found.ok()) {
    checkpoint_ = std::move(found->first);
    return continue_from(found->second);
  }
  if (error_of(found.status()) != Error::kNotFound) return found.status();
  // A run writes its first checkpoint before its first round: without one nothing was computed yet.
  if (std::filesystem::exists(path("history.sqlite"))) {
    TESSERA_ASSIGN(const auto rounds, History::count_rounds(path("history.sqlite")));
    if (rounds > 0)
      return fail(Error::kInvalid,
                  "{}: missing, though {} rounds were played; start anew with --force",
                  checkpoint_path(parts_.out), rounds);
  }
  return start();
}

Status RoundLoop::continue_from(const Checkpoint& checkpoint) {
  const auto& facts = checkpoint.facts;
  TESSERA_RETURN_IF_ERROR(same_config(parts_.out, facts.config, config_));
  TESSERA_RETURN_IF_ERROR(same_ranks(parts_.out, facts.ranks, parts_.ranks));
  TESSERA_RETURN_IF_ERROR(same_data(parts_.out, facts.data_digest, parts_.roster.data_digest));
  TESSERA_ASSIGN(auto history,
                 History::reopen(path("history.sqlite"), facts.round, facts.history_digest));
  history_ = std::move(history);
  const auto place = checkpoint_path(parts_.out);
  TESSERA_RETURN_IF_ERROR(at_place(parts_.driver.restore(checkpoint.server), place));
  TESSERA_RETURN_IF_ERROR(checkpoint_->read_clients([&](ClientId id, TensorDict state) -> Status {
    if (!parts_.host) return fail(Error::kInvalid, "{}: holds states of clients", place);
    return at_place(parts_.host->restore(id, std::move(state)), place);
  }));
  if (parts_.restore_ranks) TESSERA_RETURN_IF_ERROR(parts_.restore_ranks(facts.round, facts.ranks));
  TESSERA_RETURN_IF_ERROR(history_->set("metric", parts_.experiment.eval.metric));
  TESSERA_ASSIGN(place_, RunPlace::remember(parts_.out));
  round_ = first_round_ = facts.round;
  const auto failures = History::fact_at(path("history.sqlite"), "failures");
  if (const auto last = fmt::format("{} ", round_); failures.starts_with(last))
    failures_ = std::atoll(failures.c_str() + last.size());
  note(fmt::format("resuming after round {}", round_));
  return ok();
}

Status RoundLoop::save() {
  TESSERA_ASSIGN(const auto history, history_->running_digest());
  CheckpointFacts facts{round_, config_, parts_.roster.data_digest, history};
  if (parts_.save_ranks) {
    TESSERA_ASSIGN(facts.ranks, parts_.save_ranks(round_));
  }
  CheckpointChanges changes{parts_.driver.server(Entries::kChanged), {}};
  if (auto* store = parts_.store)
    for (const ClientId id : store->changed()) changes.clients.emplace_back(id, store->get(id));
  TESSERA_RETURN_IF_ERROR(checkpoint_->save(facts, changes));
  parts_.driver.saved();
  if (parts_.store) parts_.store->saved();
  saved_ = wall_seconds();
  return place_->still_there();
}

Status RoundLoop::interrupted() {
  TESSERA_RETURN_IF_ERROR(save());
  return fail(Error::kInterrupted, "stopped after round {} of {}; {}", round_,
              parts_.experiment.run.rounds, parts_.go_on);
}

Status RoundLoop::play() {
  const auto& options = parts_.experiment.federation;
  started_ = wall_seconds();
  for (;;) {
    note_privacy();
    TESSERA_RETURN_IF_ERROR(evaluate_if_due());
    const bool last = round_ == parts_.experiment.run.rounds;
    const bool due = options.checkpoint_every > 0 ? round_ % options.checkpoint_every == 0
                                                  : wall_seconds() - saved_ > kCheckpointSeconds;
    if (round_ > first_round_ && (due || last)) {
      TESSERA_RETURN_IF_ERROR(save());
      if (parts_.on_saved) TESSERA_RETURN_IF_ERROR(parts_.on_saved());
    }
    if (last) return ok();
    if (parts_.stop && parts_.stop->load()) return interrupted();
    const auto ready = parts_.before_round ? parts_.before_round() : ok();
    if (error_of(ready) == Error::kInterrupted) return interrupted();
    TESSERA_RETURN_IF_ERROR(ready);
    tell(RunStage::kTraining);
    auto report = parts_.driver.play(round_ + 1);
    if (error_of(report.status()) == Error::kInterrupted) return interrupted();
    TESSERA_RETURN_IF_ERROR(report.status());
    if (parts_.on_round) parts_.on_round(*report);
    loss_ = report->loss;
    if (!report->problems.empty() && !warned_)
      note(fmt::format(
          "round {}: client {}: {} (upload rejected; further ones are counted in the history)",
          round_ + 1, parts_.roster.name_of(report->problems.front().client),
          report->problems.front().reason));
    warned_ = warned_ || !report->problems.empty();
    TESSERA_RETURN_IF_ERROR(history_->append_round(*report));
    ++round_;
    TESSERA_RETURN_IF_ERROR(note_failure(*report));
  }
}

Status RoundLoop::note_failure(const RoundReport& report) {
  constexpr int64_t kMostFailures = 3;
  if (report.failure.empty() && failures_ == 0) return ok();
  failures_ = report.failure.empty() ? 0 : failures_ + 1;
  // Written down, so that a run that is taken up again ends where it would have.
  TESSERA_RETURN_IF_ERROR(history_->set("failures", fmt::format("{} {}", round_, failures_)));
  if (failures_ == 0) return ok();
  note(fmt::format("round {}: {} (the round does not count)", round_, report.failure));
  if (failures_ < kMostFailures) return ok();
  TESSERA_RETURN_IF_ERROR(save());
  return fail(
      Error::kInternal,
      "rounds {} to {} failed one after the other, the last with: {}; the state before them "
      "is saved",
      round_ - kMostFailures + 1, round_, report.failure);
}

Status RoundLoop::evaluate_if_due() {
  const auto& experiment = parts_.experiment;
  const bool last = round_ == experiment.run.rounds;
  if (round_ == 0 || (!last && round_ % experiment.federation.eval_every != 0)) return ok();
  TESSERA_ASSIGN(const bool done, history_->has_evaluation(round_));
  if (done) return ok();  // a resumed run
  tell(RunStage::kEvaluating);
  if (last && parts_.before_last) TESSERA_RETURN_IF_ERROR(parts_.before_last());
  const double start = wall_seconds();
  const auto report = parts_.driver.evaluate(round_);
  if (error_of(report.status()) == Error::kInterrupted) return interrupted();
  TESSERA_RETURN_IF_ERROR(report.status());
  if (last && parts_.on_last) TESSERA_RETURN_IF_ERROR(parts_.on_last(*report));
  if (!report->problems.empty())
    note(fmt::format("after round {}: client {}: {} ({} of this evaluation do not count)", round_,
                     parts_.roster.name_of(report->problems.front().client),
                     report->problems.front().reason, report->problems.size()));
  score_ = value_of(headline_of(report->clients, experiment.headline()), experiment.eval.metric);
  if (const auto spent = privacy_.text(); !spent.empty())
    TESSERA_RETURN_IF_ERROR(history_->set("privacy", nlohmann::json(spent).dump()));
  return history_->append_evaluation(*report, wall_seconds() - start);
}

Result<nlohmann::json> RoundLoop::finish() {
  tell(RunStage::kSummingUp);
  TESSERA_ASSIGN(auto summary, summarize_run(parts_.experiment, parts_.roster,
                                             parts_.session.model(), *history_, parts_.awaited));
  TESSERA_ASSIGN(summary["history_digest"], full_digest(*history_, parts_.out));
  Digest rounds;
  TESSERA_RETURN_IF_ERROR(history_->digest(rounds));
  summary["rounds_digest"] = rounds.hex();
  summary["peak_rss_bytes"] = peak_rss();
  summary["kernels"] =
      parts_.kernels.empty() ? nlohmann::json(nullptr) : nlohmann::json(parts_.kernels);
  summary["blas"] = blas_name(), summary["processor"] = this_processor().name;
  if (const auto* log = parts_.session.transforms())
    if (const auto totals = log->totals())
      summary["transform"] = {{"batches", totals->batches},
                              {"gradient_distance", totals->gradient_distance},
                              {"worst_gradient_distance", totals->worst_gradient_distance},
                              {"pixel_distance", totals->pixel_distance},
                              {"label_term", totals->label_term}};
  if (parts_.on_summary) parts_.on_summary(summary);
  TESSERA_RETURN_IF_ERROR(history_->set("summary", summary.dump()));
  TESSERA_RETURN_IF_ERROR(history_->set("state", "finished"));
  history_->settle(), checkpoint_->settle();
  TESSERA_RETURN_IF_ERROR(
      write_file_atomic(path("summary.json"), bytes_of(summary.dump(2) + "\n")));
  TESSERA_RETURN_IF_ERROR(place_->still_there());
  return summary;
}

}  // namespace tessera

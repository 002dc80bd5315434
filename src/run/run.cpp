#include "run/run.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "base/clock.hpp"
#include "base/key.hpp"
#include "base/text.hpp"
#include "io/file.hpp"
#include "run/checkpoint.hpp"
#include "run/config_text.hpp"
#include "run/dump.hpp"
#include "run/finished.hpp"
#include "run/history.hpp"
#include "run/predictions.hpp"
#include "run/run_directory.hpp"
#include "run/saved_model.hpp"
#include "run/simulation.hpp"
#include "run/summary.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr double kCheckpointSeconds = 20;

Status same_data(const std::string& dir, const std::string& theirs, const std::string& ours) {
  if (theirs == ours) return ok();
  return fail(
      Error::kInvalid,
      "{}: its data have changed since (digest {}, here {}); use the files it began with, or "
      "start anew with --force",
      dir, theirs.substr(0, 12), ours.substr(0, 12));
}

int64_t peak_rss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

// One run from an open directory to its summary.
class Runner {
 public:
  Runner(const Experiment& experiment, const RunRequest& request)
      : experiment_(experiment), request_(request), config_(experiment.toml()) {}

  Result<nlohmann::json> run() {
    // First of all: a directory that is refused stays exactly as it is.
    TESSERA_RETURN_IF_ERROR(inspect_run(request_.out).status());
    TESSERA_RETURN_IF_ERROR(make_dirs(request_.out));
    TESSERA_ASSIGN(const auto lock, DirLock::take(request_.out));
    TESSERA_RETURN_IF_ERROR(open_dump());
    TESSERA_ASSIGN(const auto there, what_is_there());
    tell("loading data");
    TESSERA_RETURN_IF_ERROR(load());
    if (there == RunState::kFinished && request_.resume) return finished_before();
    TESSERA_RETURN_IF_ERROR(build());
    TESSERA_RETURN_IF_ERROR(there == RunState::kUnfinished && request_.resume ? resume() : start());
    started_ = wall_seconds(), first_round_ = round_;
    TESSERA_RETURN_IF_ERROR(play());
    return finish();
  }

 private:
  // What is in the directory decides: a finished run, a clean start, or a continuation.
  Result<RunState> what_is_there();
  Result<nlohmann::json> finished_before();
  Status open_dump();
  Status load();
  Status build();
  Status start();
  Status resume();
  Status continue_from(const Checkpoint& checkpoint);
  Status play();
  Status save();
  Status evaluate_if_due();
  /// A model without weights yet, and everything else that describes it.
  SavedModel described(const std::string& client, const std::string& view) const;
  /// Takes a client's models of the last evaluation, one view after the other, and saves one.
  Status keep(ClientId id, View view, const Personal& personal, const ClientMetrics& val,
              const ClientMetrics& test);
  const SavedModel* chosen_model(const std::optional<SavedModel>& pre,
                                 const std::optional<SavedModel>& post) const;
  Status save_global();
  Result<nlohmann::json> finish();

  bool stop_asked() const { return request_.stop && request_.stop->load(); }
  // Saves what is complete, so that nothing is lost, and says how to go on.
  Status interrupted() {
    TESSERA_RETURN_IF_ERROR(save());
    return fail(Error::kInterrupted, "stopped after round {} of {}; continue with --resume", round_,
                experiment_.run.rounds);
  }
  /// Everything, for a dump.
  Checkpoint state() const;
  DumpedRun dumped() const { return {experiment_, train_, federation_, setup_.value()}; }
  std::string path(const char* name) const { return request_.out + "/" + name; }
  void note(const std::string& text) const {
    if (request_.on_note) request_.on_note(text);
  }
  /// Null: the stage is still the same.
  void tell(const char* stage);

  const Experiment& experiment_;
  const RunRequest& request_;
  const std::string config_;

  Federation federation_;
  TrainOptions train_;
  std::optional<Setup> setup_;
  std::optional<Dump> dump_;
  std::unique_ptr<Simulation> simulation_;
  std::optional<RunPlace> place_;
  std::optional<History> history_;
  std::optional<CheckpointFile> checkpoint_;
  std::optional<PredictionTable> predictions_;  // none: nobody asked for them

  int64_t round_ = 0;  // completed
  int64_t first_round_ = 0;
  double started_ = wall_seconds(), saved_ = wall_seconds();
  bool warned_ = false;
  double score_ = std::nan(""), loss_ = std::nan("");
  std::mutex progress_;  // guards what worker threads touch: the following, and on_progress
  Status save_failed_;
  std::map<ClientId, SavedModel> waiting_;  // models of the pre view until those of post are there
  int64_t clients_done_ = 0;
  std::string stage_ = "training";
};

void Runner::tell(const char* stage) {
  if (!request_.on_progress) return;
  const std::scoped_lock guard(progress_);
  if (stage) stage_ = stage;
  const double seconds = wall_seconds() - started_;
  const auto rounds = experiment_.run.rounds;
  const double done = static_cast<double>(round_ - first_round_);
  request_.on_progress(
      {.round = round_,
       .rounds = rounds,
       .stage = stage_,
       .metric = experiment_.eval.metric,
       .score = score_,
       .loss = loss_,
       .seconds = seconds,
       .eta = done > 0 ? seconds / done * static_cast<double>(rounds - round_) : std::nan(""),
       .clients_per_second = seconds > 0 ? static_cast<double>(clients_done_) / seconds : 0});
}

Result<RunState> Runner::what_is_there() {
  TESSERA_ASSIGN(const auto there, inspect_run(request_.out));
  // Forced: the old run goes only once the new one's data and model are there.
  if (request_.force || there == RunState::kNone) return there;
  if (!request_.resume && there == RunState::kFinished)
    return fail(Error::kExists,
                "{}: holds a finished run; overwrite it with --force or choose another --out",
                request_.out);
  if (!request_.resume)
    return fail(
        Error::kExists,
        "{}: holds an unfinished run; continue it with --resume, or start anew with --force",
        request_.out);
  if (!fs::exists(path("config.toml"))) return there;
  TESSERA_ASSIGN(const auto theirs, read_file(path("config.toml")));
  TESSERA_RETURN_IF_ERROR(same_config(request_.out, std::string(text_of(theirs)), config_));
  return there;
}

Result<nlohmann::json> Runner::finished_before() {
  TESSERA_ASSIGN(auto summary, read_finished(request_.out, config_));
  TESSERA_RETURN_IF_ERROR(same_data(request_.out, summary["data_digest"], federation_.data_digest));
  if (const auto metric = summary["metric"].get<std::string>(); metric != experiment_.eval.metric)
    note(fmt::format("finished with eval.metric = \"{}\", which has chosen its saved models",
                     metric));
  return summary;
}

Status Runner::open_dump() {
  const auto& dir = experiment_.debug.dump;
  if (dir.empty()) return ok();
  if (request_.resume)
    return fail(Error::kInvalid,
                "debug.dump needs a run from its first round and cannot go with --resume; start "
                "anew with --force or choose another --out");
  TESSERA_ASSIGN(auto dump, Dump::open(dir));
  dump_ = std::move(dump);
  return ok();
}

Status Runner::load() {
  const auto seed = static_cast<uint64_t>(experiment_.run.seed);
  TESSERA_ASSIGN(federation_, load_federation(experiment_.data, derive(seed, Purpose::kPartition)));
  if (request_.tell_data)
    for (const auto& text : federation_.notes) note(text);
  train_ = resolved_train(experiment_, federation_);
  return ok();
}

Status Runner::build() {
  std::vector<std::string> notes;
  TESSERA_ASSIGN(auto session, make_session(experiment_, federation_, &notes));
  for (const auto& text : notes) note(text);
  SimulationOptions options;
  options.engine = {.threads = request_.threads,
                    .through_wire = request_.through_wire,
                    .stop = request_.stop,
                    .on_client = [this] {
                      {
                        const std::scoped_lock guard(progress_);
                        ++clients_done_;
                      }
                      tell(nullptr);
                    }};
  options.sink = [this](ClientId id, View view, const Personal& personal, const ClientMetrics& val,
                        const ClientMetrics& test) {
    if (predictions_ && view == experiment_.headline())
      predictions_->add(
          id, federation_.name_of(id),
          predict_part(personal.predict, federation_.client(id), Part::kTest, train_.loss_kind()));
    return keep(id, view, personal, val, test);
  };
  if (experiment_.eval.predictions) {
    TESSERA_RETURN_IF_ERROR(check_predictions_place(path("predictions.csv")));
    predictions_.emplace(federation_.class_names, federation_.classes);
  }
  if (dump_)
    options.observe = [this](const ClientData& data) -> const ClientData& {
      return dump_->observe(data);
    };
  simulation_ = std::make_unique<Simulation>(std::move(session), federation_,
                                             experiment_.federation, std::move(options));
  setup_.emplace(simulation_->session().client_setup(0));
  return simulation_->driver().meet_clients();
}

SavedModel Runner::described(const std::string& client, const std::string& view) const {
  const auto& model = simulation_->session().model();
  SavedModel out{.client = client,
                 .method = experiment_.method.name,
                 .view = view,
                 .round = round_,
                 .options = experiment_.model,
                 .shape = {federation_.sample_shape, federation_.classes},
                 .class_names = federation_.class_names,
                 .inputs = federation_.input,
                 .loss = train_.loss_kind().kind,
                 .config_digest = config_digest(config_)};
  // The run's model outlives everything here, so nobody has to own it.
  out.model = std::shared_ptr<const Model>(std::shared_ptr<void>(), &model);
  return out;
}

Status Runner::keep(ClientId id, View view, const Personal& personal, const ClientMetrics& val,
                    const ClientMetrics& test) {
  std::optional<SavedModel> offered;
  if (personal.weights) {
    offered = described(federation_.name_of(id), view == View::kPre ? "pre" : "post");
    if (personal.model) offered->model = personal.model;
    if (const auto& scaling = federation_.client(id).scaling) offered->scaling = *scaling;
    offered->weights = *personal.weights, offered->val = val, offered->test = test;
  }
  std::optional<SavedModel> before;
  {
    const std::scoped_lock guard(progress_);
    if (view == View::kPre) {
      if (offered) waiting_.emplace(id, *std::move(offered));
      return ok();
    }
    if (auto node = waiting_.extract(id); !node.empty()) before = std::move(node.mapped());
  }
  const auto* chosen = chosen_model(before, offered);
  if (!chosen) return ok();
  auto status = save_model(path("models"), *chosen);
  const std::scoped_lock guard(progress_);
  save_failed_.Update(status);
  return status;
}

// What [output] model says. A view that is no single network cannot be saved.
const SavedModel* Runner::chosen_model(const std::optional<SavedModel>& pre,
                                       const std::optional<SavedModel>& post) const {
  const auto& wanted = experiment_.output.model;
  const auto pointer = [](const std::optional<SavedModel>& m) { return m ? &*m : nullptr; };
  const bool pre_leads = experiment_.headline() == View::kPre;
  const auto *leads = pointer(pre_leads ? pre : post), *other = pointer(pre_leads ? post : pre);
  if (wanted == "pre") return pointer(pre);
  if (wanted == "post") return pointer(post);
  if (wanted == "headline" || !other) return leads;
  if (!leads) return other;
  const auto& metric = metric_of(experiment_.eval.metric);
  const bool better =
      metric.better(value_of(other->val, metric.name), value_of(leads->val, metric.name));
  return other->val.n > 0 && better ? other : leads;
}

Status Runner::save_global() {
  const auto weights = simulation_->driver().global(round_);
  if (!weights) return ok();
  const auto scaling = common_scaling(federation_);
  if (!scaling) {
    note(kNoGlobalModel);
    return ok();
  }
  auto model = described(kGlobal, kGlobal);
  model.scaling = *scaling, model.weights = *weights;
  return save_model(path("models"), model);
}

Status Runner::start() {
  TESSERA_RETURN_IF_ERROR(simulation_->driver().begin());
  TESSERA_RETURN_IF_ERROR(clear_run(request_.out));
  TESSERA_RETURN_IF_ERROR(write_file_atomic(path("config.toml"), bytes_of(config_)));
  TESSERA_ASSIGN(auto history, History::create(path("history.sqlite"),
                                               run_facts(experiment_, federation_,
                                                         simulation_->session().model(), config_),
                                               federation_));
  history_ = std::move(history);
  TESSERA_ASSIGN(auto file, CheckpointFile::create(request_.out));
  checkpoint_ = std::move(file);
  TESSERA_ASSIGN(place_, RunPlace::remember(request_.out));
  if (dump_) TESSERA_RETURN_IF_ERROR(dump_->begin(dumped(), state()));
  return save();
}

Status Runner::resume() {
  auto found = CheckpointFile::open(request_.out);
  if (found.ok()) {
    checkpoint_ = std::move(found->first);
    return continue_from(found->second);
  }
  if (error_of(found.status()) != Error::kNotFound) return found.status();
  // A run writes its first checkpoint before its first round: without one nothing was computed yet.
  if (fs::exists(path("history.sqlite"))) {
    TESSERA_ASSIGN(const auto rounds, History::count_rounds(path("history.sqlite")));
    if (rounds > 0)
      return fail(Error::kInvalid,
                  "{}: missing, though {} rounds were played; start anew with --force",
                  checkpoint_path(request_.out), rounds);
  }
  return start();
}

Status Runner::continue_from(const Checkpoint& checkpoint) {
  const auto& facts = checkpoint.facts;
  TESSERA_RETURN_IF_ERROR(same_config(request_.out, facts.config, config_));
  TESSERA_RETURN_IF_ERROR(same_data(request_.out, facts.data_digest, federation_.data_digest));
  TESSERA_ASSIGN(auto history,
                 History::reopen(path("history.sqlite"), facts.round, facts.history_digest));
  history_ = std::move(history);
  const auto place = checkpoint_path(request_.out);
  TESSERA_RETURN_IF_ERROR(at_place(simulation_->driver().restore(checkpoint.server), place));
  for (const auto& [id, state] : checkpoint.clients)
    TESSERA_RETURN_IF_ERROR(at_place(simulation_->host().restore(id, state), place));
  TESSERA_RETURN_IF_ERROR(history_->set("metric", experiment_.eval.metric));
  TESSERA_ASSIGN(place_, RunPlace::remember(request_.out));
  round_ = facts.round;
  note(fmt::format("resuming after round {}", round_));
  return ok();
}

Checkpoint Runner::state() const {
  Checkpoint out{{round_, config_}, simulation_->driver().server(), {}};
  for (const ClientId id : simulation_->store().ids())
    out.clients.emplace_back(id, *simulation_->store().get(id));
  return out;
}

Status Runner::save() {
  auto& driver = simulation_->driver();
  auto& store = simulation_->store();
  TESSERA_ASSIGN(const auto history, history_->running_digest());
  CheckpointChanges changes{driver.server(Entries::kChanged), {}};
  for (const ClientId id : store.changed()) changes.clients.emplace_back(id, store.get(id));
  TESSERA_RETURN_IF_ERROR(
      checkpoint_->save({round_, config_, federation_.data_digest, history}, changes));
  driver.saved(), store.saved();
  saved_ = wall_seconds();
  return place_->still_there();
}

Status Runner::play() {
  const auto& options = experiment_.federation;
  for (;;) {
    TESSERA_RETURN_IF_ERROR(evaluate_if_due());
    const bool last = round_ == experiment_.run.rounds;
    const bool due = options.checkpoint_every > 0 ? round_ % options.checkpoint_every == 0
                                                  : wall_seconds() - saved_ > kCheckpointSeconds;
    if (round_ > first_round_ && (due || last)) TESSERA_RETURN_IF_ERROR(save());
    if (last) return ok();
    if (stop_asked()) return interrupted();
    tell("training");
    auto report = simulation_->driver().play(round_ + 1);
    if (error_of(report.status()) == Error::kInterrupted) return interrupted();
    TESSERA_RETURN_IF_ERROR(report.status());
    if (dump_) dump_->end_round(round_ + 1);
    loss_ = report->loss;
    if (!report->problems.empty() && !warned_)
      note(fmt::format(
          "round {}: client {}: {} (upload rejected; further ones are counted in the history)",
          round_ + 1, federation_.name_of(report->problems.front().client),
          report->problems.front().reason));
    warned_ = warned_ || !report->problems.empty();
    TESSERA_RETURN_IF_ERROR(history_->append_round(*report));
    ++round_;
  }
}

Status Runner::evaluate_if_due() {
  const bool last = round_ == experiment_.run.rounds;
  if (round_ == 0 || (!last && round_ % experiment_.federation.eval_every != 0)) return ok();
  TESSERA_ASSIGN(const bool done, history_->has_evaluation(round_));
  if (done) return ok();  // a resumed run
  tell("evaluating");
  if (last) TESSERA_RETURN_IF_ERROR(make_dirs(path("models")));
  const double start = wall_seconds();
  const auto report = simulation_->driver().evaluate(round_);
  if (error_of(report.status()) == Error::kInterrupted) return interrupted();
  TESSERA_RETURN_IF_ERROR(report.status());
  TESSERA_RETURN_IF_ERROR(save_failed_);  // our disk, not the client's model
  if (last) TESSERA_RETURN_IF_ERROR(save_global());
  if (!report->problems.empty())
    note(fmt::format("after round {}: client {}: {} ({} of this evaluation do not count)", round_,
                     federation_.name_of(report->problems.front().client),
                     report->problems.front().reason, report->problems.size()));
  if (last && predictions_) {
    std::set<ClientId> failed;
    for (const auto& problem : report->problems) failed.insert(problem.client);
    TESSERA_RETURN_IF_ERROR(predictions_->write(path("predictions.csv"), failed));
  }
  score_ = value_of(headline_of(report->clients, experiment_.headline()), experiment_.eval.metric);
  return history_->append_evaluation(*report, wall_seconds() - start);
}

Result<nlohmann::json> Runner::finish() {
  tell("summing up");
  const auto& session = simulation_->session();
  if (dump_) TESSERA_RETURN_IF_ERROR(dump_->end(dumped(), state()));
  TESSERA_ASSIGN(auto summary, summarize_run(experiment_, federation_, session.model(), *history_));
  TESSERA_ASSIGN(summary["history_digest"], full_digest(*history_, request_.out));
  summary["peak_rss_bytes"] = peak_rss();
  TESSERA_RETURN_IF_ERROR(history_->set("summary", summary.dump()));
  TESSERA_RETURN_IF_ERROR(history_->set("state", "finished"));
  history_->settle(), checkpoint_->settle();
  TESSERA_RETURN_IF_ERROR(
      write_file_atomic(path("summary.json"), bytes_of(summary.dump(2) + "\n")));
  TESSERA_RETURN_IF_ERROR(place_->still_there());
  return summary;
}

}  // namespace

Result<nlohmann::json> run_experiment(const Experiment& experiment, const RunRequest& request) {
  try {
    return Runner(experiment, request).run();
  } catch (const std::bad_alloc&) {
    return fail(Error::kIo,
                "out of memory; fewer --threads or a smaller model or batch needs less");
  } catch (const std::exception& error) {
    return fail(Error::kInternal, "method {}: {}", experiment.method.name,
                first_line(error.what()));
  }
}

}  // namespace tessera

#include "run/run.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/key.hpp"
#include "base/text.hpp"
#include "io/file.hpp"
#include "model/fast/kernels.hpp"
#include "run/config_text.hpp"
#include "run/dump.hpp"
#include "run/finished.hpp"
#include "run/model_keeper.hpp"
#include "run/predictions.hpp"
#include "run/rank_lead.hpp"
#include "run/round_loop.hpp"
#include "run/run_directory.hpp"
#include "run/simulation.hpp"

namespace tessera {

const char* words_of(RunStage stage) {
  switch (stage) {
    case RunStage::kLoading:
      return "loading data";
    case RunStage::kTraining:
      return "training";
    case RunStage::kEvaluating:
      return "evaluating";
    case RunStage::kSummingUp:
      return "summing up";
  }
  return "";
}

namespace {

namespace fs = std::filesystem;

// One run from an open directory to its summary.
class Runner {
 public:
  Runner(const Experiment& experiment, const RunRequest& request)
      : experiment_(experiment), request_(request), config_(experiment.toml()) {}

  Result<nlohmann::json> run() {
    if (request_.ranks) lead_.emplace(*request_.ranks, experiment_);
    if (lead_) TESSERA_RETURN_IF_ERROR(check_ranks(experiment_));
    // First of all: a directory that is refused stays exactly as it is.
    TESSERA_RETURN_IF_ERROR(inspect_run(request_.out).status());
    TESSERA_RETURN_IF_ERROR(make_dirs(request_.out));
    TESSERA_ASSIGN(const auto lock, DirLock::take(request_.out));
    TESSERA_RETURN_IF_ERROR(open_dump());
    TESSERA_ASSIGN(const auto there, what_is_there());
    if (request_.on_progress)
      request_.on_progress({.rounds = experiment_.run.rounds,
                            .stage = RunStage::kLoading,
                            .metric = experiment_.eval.metric,
                            .score = std::nan(""),
                            .loss = std::nan(""),
                            .eta = std::nan("")});
    TESSERA_RETURN_IF_ERROR(load());
    if (there == RunState::kFinished && request_.resume) return finished_before();
    const bool continues = there == RunState::kUnfinished && request_.resume;
    TESSERA_RETURN_IF_ERROR(choose_kernels(continues));
    TESSERA_RETURN_IF_ERROR(build());
    TESSERA_RETURN_IF_ERROR(continues ? loop_->resume() : loop_->start());
    TESSERA_RETURN_IF_ERROR(loop_->play());
    if (dump_) TESSERA_RETURN_IF_ERROR(dump_->end(dumped(), state()));
    return loop_->finish();
  }

 private:
  // What is in the directory decides: a finished run, a clean start, or a continuation.
  Result<RunState> what_is_there();
  Result<nlohmann::json> finished_before();
  // The experiment's kernels; a run that is continued and left the choice open keeps its own.
  Status choose_kernels(bool continues);
  Status open_dump();
  Status load();
  Status build();
  LoopParts loop_parts();
  /// Hosts rank 0's own clients only, and reaches the others through the desk.
  void reach_ranks(SimulationOptions& options);
  /// After the last evaluation: the global model, and predictions of those that count.
  Status keep_results(const EvalReport& report);

  /// Everything, for a dump.
  Checkpoint state() const;
  DumpedRun dumped() const { return {experiment_, train_, federation_, setup_.value()}; }
  std::string path(const char* name) const { return request_.out + "/" + name; }
  void note(const std::string& text) const {
    if (request_.on_note) request_.on_note(text);
  }

  const Experiment& experiment_;
  const RunRequest& request_;
  const std::string config_;

  const fast::Kernels* kernels_ = nullptr;
  Federation federation_;
  TrainOptions train_;
  std::optional<Setup> setup_;
  std::optional<Dump> dump_;
  std::optional<RankLead> lead_;  // none: one process
  Status rank_files_;             // the first error with what ranks sent to be kept
  Roster roster_;
  std::unique_ptr<Simulation> simulation_;
  std::unique_ptr<RoundLoop> loop_;
  std::unique_ptr<ModelKeeper> models_;
  bool saves_clients_ = true;                   // models of single clients, too
  std::optional<PredictionTable> predictions_;  // none: nobody asked for them
};

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

Status Runner::choose_kernels(bool continues) {
  TESSERA_ASSIGN(kernels_, fast::kernels_named(experiment_.machine.kernels));
  if (!continues || experiment_.machine.kernels != "auto") return ok();
  const auto theirs = History::fact_at(path("history.sqlite"), "kernels");
  if (theirs.empty() || theirs == kernels_->name) return ok();
  const auto found = fast::kernels_named(theirs);
  if (!found.ok())
    return fail(Error::kInvalid,
                "{}: began with the kernels {}, and {}; others would change its last bits: go on "
                "where it began, or start anew with --force",
                request_.out, printable(theirs), message(found.status()));
  kernels_ = *found;
  note(fmt::format("going on with the kernels {}, with which it began", theirs));
  return ok();
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
  if (lead_) {
    TESSERA_ASSIGN(federation_, lead_->load(roster_));
  } else if (request_.federation) {
    federation_ = *request_.federation;
  } else {
    TESSERA_ASSIGN(federation_,
                   load_federation(experiment_.data, derive(seed, Purpose::kPartition)));
  }
  if (dump_) TESSERA_RETURN_IF_ERROR(open_all(federation_));
  if (request_.tell_data)
    for (const auto& text : federation_.notes) note(text);
  train_ = resolved_train(experiment_, federation_);
  if (!lead_) roster_ = federation_;
  return ok();
}

Status Runner::build() {
  std::vector<std::string> notes;
  const fast::KernelScope scope(*kernels_);
  TESSERA_ASSIGN(auto session, make_session(experiment_, federation_, &notes));
  for (const auto& text : notes) note(text);
  SimulationOptions options;
  options.engine = {.threads = request_.threads,
                    .through_wire = request_.through_wire,
                    .stop = request_.stop,
                    .on_client = [this] {
                      if (loop_) loop_->client_done();
                    }};
  options.sink = [this](const ShownModel& shown) -> Status {
    const ClientId id = shown.client;
    if (predictions_ && shown.view == experiment_.headline()) {
      TESSERA_ASSIGN(const auto data, federation_.client(id).open());
      predictions_->add(
          id, data->name,
          predict_part(shown.personal.predict, *data, Part::kTest, train_.loss_kind()));
    }
    if (!saves_clients_) return ok();
    return models_->keep(federation_.client(id), loop_->round(), shown);
  };
  const auto& wanted = experiment_.output.clients;
  saves_clients_ = wanted == "all" || (wanted == "auto" && std::ssize(federation_.clients) <=
                                                               OutputOptions::kMostSaved);
  if (!saves_clients_ && wanted == "auto")
    note(
        fmt::format("models of single clients are not saved: there are more than {} clients "
                    "(output.clients = \"all\" saves those of the evaluated ones)",
                    OutputOptions::kMostSaved));
  if (experiment_.eval.predictions) {
    TESSERA_RETURN_IF_ERROR(check_predictions_place(path("predictions.csv")));
    predictions_.emplace(federation_.class_names, federation_.classes);
  }
  options.states = {experiment_.machine.third(), request_.out};
  if (dump_)
    options.observe = [this](const ClientData& data) -> const ClientData& {
      return dump_->observe(data);
    };
  if (lead_) reach_ranks(options);
  simulation_ = std::make_unique<Simulation>(std::move(session), federation_,
                                             experiment_.federation, std::move(options));
  setup_.emplace(simulation_->session().client_setup(0));
  TESSERA_RETURN_IF_ERROR(simulation_->driver().meet_clients());
  loop_ = std::make_unique<RoundLoop>(loop_parts());
  models_ = std::make_unique<ModelKeeper>(experiment_, federation_, simulation_->session().model(),
                                          path("models"));
  return ok();
}

void Runner::reach_ranks(SimulationOptions& options) {
  options.hosts = [this](ClientId id) { return lead_->placement().hosts(0, id); };
  options.reach = [this, engine = options.engine](LocalEngine& local) -> std::unique_ptr<Engine> {
    return std::make_unique<MpiEngine>(
        *request_.ranks, lead_->placement(), local, engine,
        [this](ClientId client, const std::string& name, const Bytes& bytes) {
          if (name != "predictions") {
            rank_files_.Update(write_file_atomic(path("models/") + name, bytes));
            return rank_files_;
          }
          predictions_->add(client, std::string(text_of(bytes)));
          return ok();
        });
  };
}

LoopParts Runner::loop_parts() {
  LoopParts out{.experiment = experiment_,
                .roster = roster_,
                .session = simulation_->session(),
                .driver = simulation_->driver(),
                .host = &simulation_->host(),
                .store = &simulation_->store(),
                .kernels = kernels_->name,
                .out = request_.out,
                .stop = request_.stop,
                .on_progress = request_.on_progress,
                .on_note = request_.on_note};
  out.before_last = [this] { return make_dirs(path("models")); };
  out.on_last = [this](const EvalReport& report) { return keep_results(report); };
  if (lead_) {
    out.on_start = [this] { return lead_->begin(); };
    out.ranks = request_.ranks->ranks();
    out.save_ranks = [this](int64_t round) { return lead_->save(round); };
    out.restore_ranks = [this](int64_t round, const std::string& ranks) {
      return lead_->restore(round, ranks);
    };
    out.on_summary = [this](nlohmann::json& summary) {
      lead_->tell(summary, loop_->round() - loop_->first_round());
    };
  }
  if (dump_) {
    out.on_start = [this] { return dump_->begin(dumped(), state()); };
    out.on_round = [this](const RoundReport& report) { dump_->end_round(report.round); };
  }
  return out;
}

Checkpoint Runner::state() const {
  Checkpoint out{{loop_->round(), config_}, simulation_->driver().server(), {}};
  for (const ClientId id : simulation_->store().ids())
    out.clients.emplace_back(id, *simulation_->store().get(id));
  return out;
}

Status Runner::keep_results(const EvalReport& report) {
  TESSERA_RETURN_IF_ERROR(models_->failed());  // our disk, not the client's model
  TESSERA_RETURN_IF_ERROR(rank_files_);
  if (auto weights = simulation_->driver().global(loop_->round())) {
    const auto model = models_->global_model(loop_->round(), *std::move(weights));
    if (!model) note(kNoGlobalModel);
    if (model) TESSERA_RETURN_IF_ERROR(save_model(path("models"), *model));
  }
  if (!predictions_) return ok();
  std::set<ClientId> failed;
  for (const auto& problem : report.problems) failed.insert(problem.client);
  return predictions_->write(path("predictions.csv"), failed);
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

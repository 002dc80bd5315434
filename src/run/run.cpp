#include "run/run.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "base/clock.hpp"
#include "base/key.hpp"
#include "engine/local/local_engine.hpp"
#include "io/file.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "run/checkpoint.hpp"
#include "run/driver.hpp"
#include "run/dump.hpp"
#include "run/history.hpp"
#include "run/pooled.hpp"
#include "run/summary.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr double kCheckpointSeconds = 20;

// Where data lie may differ between machines; everything else makes another experiment.
std::string comparable(const std::string& config) {
  std::string out;
  size_t begin = 0;
  while (begin < config.size()) {
    const auto end = std::min(config.find('\n', begin), config.size() - 1) + 1;
    const auto line = config.substr(begin, end - begin);
    if (line.rfind("data_dir ", 0) != 0) out += line;
    begin = end;
  }
  return out;
}

std::string first_difference(const std::string& theirs, const std::string& ours) {
  const auto line_at = [](const std::string& text, size_t at) {
    const auto begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    return text.substr(begin, text.find('\n', at) - begin);
  };
  const auto a = comparable(theirs), b = comparable(ours);
  size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  if (at >= a.size() || at >= b.size()) return "";
  return fmt::format(": there '{}', here '{}'", line_at(a, at), line_at(b, at));
}

Status same_config(const std::string& dir, const std::string& theirs, const std::string& ours) {
  if (comparable(theirs) == comparable(ours)) return ok();
  return fail(Error::kInvalid,
              "{}: belongs to another configuration{}; choose another --out or use --force", dir,
              first_difference(theirs, ours));
}

// Only what a run writes: a directory may hold other things of its owner.
Status remove_run(const std::string& dir) {
  std::vector<std::string> names{
      "summary.json",       "report.html",        "config.toml", "history.sqlite",
      "history.sqlite-wal", "history.sqlite-shm", "checkpoint",  "models"};
  for (const auto& exhibit : History::exhibit_names(dir + "/history.sqlite"))
    names.push_back(exhibit + ".csv");
  for (const auto& name : names) {
    std::error_code error;
    fs::remove_all(fs::path(dir) / name, error);
    if (error) return fail(Error::kIo, "{}/{}: cannot remove: {}", dir, name, error.message());
  }
  return ok();
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
    TESSERA_RETURN_IF_ERROR(make_dirs(request_.out));
    TESSERA_ASSIGN(const auto lock, DirLock::take(request_.out));
    TESSERA_RETURN_IF_ERROR(open_dump());
    TESSERA_ASSIGN(auto finished, prepare_directory());
    if (finished) return *std::move(finished);
    tell("loading data");
    TESSERA_RETURN_IF_ERROR(build());
    TESSERA_RETURN_IF_ERROR(start_or_resume());
    started_ = wall_seconds(), first_round_ = round_;
    TESSERA_RETURN_IF_ERROR(play());
    return finish();
  }

 private:
  // What is in the directory decides: a finished summary, a clean start, or a continuation.
  Result<std::optional<nlohmann::json>> prepare_directory();
  Status open_dump();
  Status build();
  Status start_or_resume();
  Status start();
  Status resume(Checkpoint checkpoint);
  Status play();
  Status save();
  Status evaluate_if_due();
  Result<nlohmann::json> finish();

  bool stop_asked() const { return request_.stop && request_.stop->load(); }
  // Saves what is complete, so that nothing is lost, and says how to go on.
  Status interrupted() {
    TESSERA_RETURN_IF_ERROR(save());
    return fail(Error::kInterrupted, "stopped after round {} of {}; continue with --resume", round_,
                experiment_.run.rounds);
  }
  Checkpoint state() const { return {round_, config_, driver_->server(), engine_->states()}; }
  DumpedRun dumped() const { return {experiment_, train_, federation_, context_->setup}; }
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
  ClientData pooled_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<AnyMethod> method_;
  TrainOptions train_;
  std::optional<ClientContext> context_;
  std::optional<Dump> dump_;
  std::unique_ptr<LocalEngine> engine_;
  std::unique_ptr<Driver> driver_;
  std::optional<History> history_;

  int64_t round_ = 0;  // completed
  int64_t first_round_ = 0;
  double started_ = wall_seconds(), saved_ = wall_seconds();
  bool warned_ = false;
  double accuracy_ = std::nan(""), loss_ = std::nan("");
  std::mutex progress_;  // guards clients_done_ and calls of on_progress from worker threads
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
       .accuracy = accuracy_,
       .loss = loss_,
       .seconds = seconds,
       .eta = done > 0 ? seconds / done * static_cast<double>(rounds - round_) : std::nan(""),
       .clients_per_second = seconds > 0 ? static_cast<double>(clients_done_) / seconds : 0});
}

Result<std::optional<nlohmann::json>> Runner::prepare_directory() {
  const bool finished = fs::exists(path("summary.json"));
  const bool begun = fs::exists(path("config.toml")) || fs::exists(path("history.sqlite")) ||
                     fs::exists(path("checkpoint"));
  // Forced: the old run goes only once the new one's data and model are there.
  if (request_.force || (!finished && !begun)) return std::nullopt;
  if (!request_.resume) {
    if (finished)
      return fail(Error::kExists,
                  "{}: holds a finished run; overwrite it with --force or choose "
                  "another --out",
                  request_.out);
    return fail(Error::kExists,
                "{}: holds an unfinished run; continue it with --resume, or start "
                "anew with --force",
                request_.out);
  }
  if (fs::exists(path("config.toml"))) {
    TESSERA_ASSIGN(const auto theirs, read_file(path("config.toml")));
    TESSERA_RETURN_IF_ERROR(same_config(request_.out, std::string(text_of(theirs)), config_));
  }
  if (!finished) return std::nullopt;
  TESSERA_ASSIGN(const auto bytes, read_file(path("summary.json")));
  auto summary = nlohmann::json::parse(text_of(bytes), nullptr, false);
  if (summary.is_discarded())
    return fail(Error::kInvalid, "{}: damaged; start anew with --force", path("summary.json"));
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

Status Runner::build() {
  const auto seed = static_cast<uint64_t>(experiment_.run.seed);
  TESSERA_ASSIGN(federation_, load_federation(experiment_.data, derive(seed, Purpose::kPartition)));
  for (const auto& text : federation_.notes) note(text);
  const Shape shape{federation_.sample_shape, federation_.classes};
  const auto init = experiment_.model.init == "torch" ? Init::kTorch : Init::kHe0;
  TESSERA_ASSIGN(model_, make_model(experiment_.model.name, shape, init));

  train_ = experiment_.train;
  if (train_.loss == "auto") train_.loss = federation_.multi_label_loss ? "multilabel" : "ce";
  method_ = experiment_.draft->build(train_);

  const Setup setup{*model_,
                    static_cast<int64_t>(federation_.clients.size()),
                    experiment_.run.rounds,
                    experiment_.federation.participation,
                    derive(seed, Purpose::kInit),
                    static_cast<int64_t>(federation_.newcomers.size()),
                    federation_.commons.train_size()};
  context_.emplace(
      ClientContext{*method_, experiment_.method.name, setup, seed, train_.loss_kind()});
  TESSERA_RETURN_IF_ERROR(suits(*method_, setup, federation_));
  const bool pool = experiment_.method.pooled;
  const auto cohort = cohort_of(seed, 1, setup.clients, setup.participation).size();
  if (!pool && experiment_.federation.min_replies > static_cast<int64_t>(cohort))
    return fail(Error::kInvalid,
                "federation.min_replies = {} can never be reached: a round has {} "
                "clients",
                experiment_.federation.min_replies, cohort);
  if (pool) pooled_ = pooled(federation_.clients);
  std::vector<ClientRuntime> clients;
  for (const auto* group : {&federation_.clients, &federation_.newcomers}) {
    for (const auto& data : *group) {
      const auto id = static_cast<ClientId>(clients.size());
      const bool newcomer = group == &federation_.newcomers;
      const auto& trains_on = pool && id == 0 ? pooled_ : data;
      clients.emplace_back(*context_, id, data,
                           dump_ && !newcomer ? dump_->observe(trains_on) : trains_on, newcomer);
    }
  }
  engine_ = std::make_unique<LocalEngine>(
      std::move(clients), LocalEngineOptions{.threads = request_.threads,
                                             .through_wire = request_.through_wire,
                                             .stop = request_.stop,
                                             .on_client = [this] {
                                               {
                                                 const std::scoped_lock guard(progress_);
                                                 ++clients_done_;
                                               }
                                               tell(nullptr);
                                             }});
  driver_ = std::make_unique<Driver>(
      DriverSetup{*method_, experiment_.method, setup, seed, experiment_.federation,
                  static_cast<int64_t>(federation_.newcomers.size()), request_.threads,
                  &federation_.commons},
      *engine_);
  return ok();
}

Status Runner::start_or_resume() {
  if (request_.force) return start();
  auto checkpoint = load_checkpoint(request_.out);
  if (checkpoint.ok()) return resume(*std::move(checkpoint));
  if (error_of(checkpoint.status()) != Error::kNotFound) return checkpoint.status();
  // A run writes its first checkpoint before its first round: without one nothing was computed yet.
  if (fs::exists(path("history.sqlite"))) {
    TESSERA_ASSIGN(const auto rounds, History::count_rounds(path("history.sqlite")));
    if (rounds > 0)
      return fail(Error::kInvalid,
                  "{}: missing, though {} rounds were played; start anew with "
                  "--force",
                  checkpoint_path(request_.out), rounds);
  }
  return start();
}

Status Runner::start() {
  TESSERA_RETURN_IF_ERROR(remove_run(request_.out));
  TESSERA_RETURN_IF_ERROR(write_file_atomic(path("config.toml"), bytes_of(config_)));
  TESSERA_ASSIGN(
      auto history,
      History::create(path("history.sqlite"), run_facts(experiment_, federation_, *model_, config_),
                      federation_));
  history_ = std::move(history);
  if (dump_) TESSERA_RETURN_IF_ERROR(dump_->begin(dumped(), state()));
  return save();
}

Status Runner::resume(Checkpoint checkpoint) {
  TESSERA_RETURN_IF_ERROR(same_config(request_.out, checkpoint.config, config_));
  TESSERA_ASSIGN(auto history, History::reopen(path("history.sqlite"), checkpoint.round));
  history_ = std::move(history);
  TESSERA_ASSIGN(const auto dealt, history_->get("partition_digest"));
  if (dealt != federation_.digest)
    return fail(Error::kInvalid,
                "{}: its data were dealt differently (digest {}, here {}); use the "
                "files it began with, or start anew with --force",
                request_.out, dealt, federation_.digest);
  driver_->restore(std::move(checkpoint.server));
  for (auto& [id, state] : checkpoint.clients) {
    if (id >= static_cast<int64_t>(federation_.clients.size() + federation_.newcomers.size()))
      return fail(Error::kInvalid, "{}: has a client {} that this experiment has not",
                  checkpoint_path(request_.out), id);
    engine_->restore(id, std::move(state));
  }
  round_ = checkpoint.round;
  note(fmt::format("resuming after round {}", round_));
  return ok();
}

Status Runner::save() {
  TESSERA_RETURN_IF_ERROR(save_checkpoint(request_.out, state()));
  saved_ = wall_seconds();
  return ok();
}

Status Runner::play() {
  const auto& options = experiment_.federation;
  for (;;) {
    TESSERA_RETURN_IF_ERROR(evaluate_if_due());
    if (round_ == experiment_.run.rounds) return save();
    if (stop_asked()) return interrupted();
    tell("training");
    auto report = driver_->play(round_ + 1);
    if (error_of(report.status()) == Error::kInterrupted) return interrupted();
    TESSERA_RETURN_IF_ERROR(report.status());
    if (dump_) dump_->end_round(round_ + 1);
    loss_ = report->loss;
    if (!report->problems.empty() && !warned_)
      note(fmt::format("round {}: {} (upload rejected; further ones are counted in the history)",
                       round_ + 1, report->problems.front()));
    warned_ = warned_ || !report->problems.empty();
    TESSERA_RETURN_IF_ERROR(history_->append_round(*report));
    ++round_;
    const bool due = options.checkpoint_every > 0 ? round_ % options.checkpoint_every == 0
                                                  : wall_seconds() - saved_ > kCheckpointSeconds;
    if (due) TESSERA_RETURN_IF_ERROR(save());
  }
}

Status Runner::evaluate_if_due() {
  const bool last = round_ == experiment_.run.rounds;
  if (round_ == 0 || (!last && round_ % experiment_.federation.eval_every != 0)) return ok();
  TESSERA_ASSIGN(const bool done, history_->has_evaluation(round_));
  if (done) return ok();  // a resumed run
  tell("evaluating");
  PersonalSink sink;
  if (last) {
    TESSERA_RETURN_IF_ERROR(make_dirs(path("models")));
    sink = [this](ClientId id, View view, const Personal& personal) -> Status {
      if (view != experiment_.method.headline || !personal.weights) return ok();
      const Model& model = personal.model ? *personal.model : *model_;
      return save_model(path("models"), id, model, *personal.weights, experiment_);
    };
  }
  const double start = wall_seconds();
  const auto report = driver_->evaluate(round_, sink);
  if (error_of(report.status()) == Error::kInterrupted) return interrupted();
  TESSERA_RETURN_IF_ERROR(report.status());
  if (!report->problems.empty()) note(report->problems.front() + " (upload not used)");
  accuracy_ = headline_of(report->clients, experiment_.method.headline).mean;
  return history_->append_evaluation(*report, wall_seconds() - start);
}

Result<nlohmann::json> Runner::finish() {
  tell("summing up");
  if (dump_) TESSERA_RETURN_IF_ERROR(dump_->end(dumped(), state()));
  TESSERA_ASSIGN(auto summary, summarize_run(experiment_, federation_, *model_, *history_));
  Digest digest;
  TESSERA_RETURN_IF_ERROR(history_->digest(digest));
  const auto everyone = federation_.clients.size() + federation_.newcomers.size();
  for (size_t id = 0; id < everyone; ++id) {
    const auto file = fmt::format("{}/models/client-{}.safetensors", request_.out, id);
    if (!fs::exists(file)) continue;
    TESSERA_ASSIGN(const auto hex, file_digest(file));
    digest.add(fmt::format("client-{} {}\n", id, hex));
  }
  summary["history_digest"] = digest.hex();
  summary["peak_rss_bytes"] = peak_rss();
  TESSERA_RETURN_IF_ERROR(history_->set("summary", summary.dump()));
  TESSERA_RETURN_IF_ERROR(history_->set("state", "finished"));
  history_->settle();
  TESSERA_RETURN_IF_ERROR(
      write_file_atomic(path("summary.json"), bytes_of(summary.dump(2) + "\n")));
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
    return fail(Error::kInternal, "method {}: {}", experiment.method.name, error.what());
  }
}

}  // namespace tessera

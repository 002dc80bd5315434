#include "run/serve.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/key.hpp"
#include "base/text.hpp"
#include "engine/grpc/grpc_engine.hpp"
#include "io/file.hpp"
#include "net/identity.hpp"
#include "net/metrics_page.hpp"
#include "net/private_file.hpp"
#include "run/config_text.hpp"
#include "run/coordinator.hpp"
#include "run/draw_key.hpp"
#include "run/finished.hpp"
#include "run/round_loop.hpp"
#include "run/run_directory.hpp"
#include "run/saved_model.hpp"
#include "run/servable.hpp"
#include "run/state_watch.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// A federation from an open state to its summary.
class Serving {
 public:
  Serving(const Experiment& experiment, const ServeRequest& request)
      : experiment_(experiment), request_(request) {}

  Result<nlohmann::json> run() {
    TESSERA_RETURN_IF_ERROR(check_servable(experiment_));
    TESSERA_ASSIGN(auto names, members_of(experiment_));
    TESSERA_RETURN_IF_ERROR(inspect_run(request_.state).status());
    TESSERA_RETURN_IF_ERROR(make_private_dir(request_.state));
    TESSERA_ASSIGN(const auto lock, DirLock::take(request_.state));
    TESSERA_ASSIGN(watch_, StateWatch::begin(request_.state, request_.stop));
    TESSERA_RETURN_IF_ERROR(check_state());
    TESSERA_RETURN_IF_ERROR(load_commons());
    TESSERA_RETURN_IF_ERROR(open(std::move(names)));
    auto result = play();
    if (page_) page_->stop();
    server_->stop();
    TESSERA_RETURN_IF_ERROR(watch_->trouble());
    TESSERA_RETURN_IF_ERROR(audit_->sync());
    return result;
  }

 private:
  Status check_state();
  Status load_commons();
  Status open(MemberNames names);
  Result<nlohmann::json> play();
  Result<nlohmann::json> rounds(const Session& session);
  /// The session, behind a bound on the length of changes where uploads are changes that the server
  /// sees: one member alone must not be able to ruin the model.
  Session bounded(const Session& session);
  Status wait_for_start();
  /// Until enough clients are there for a round to count, at most for the time of a round. Nobody
  /// waits for who is not there, so rounds would otherwise be used up in a moment.
  Status wait_for_quorum();
  /// Until everybody who is there has heard that it is over, or `linger` has passed.
  void say_goodbye();
  bool stopped() const { return watch_->stop()->load(); }
  std::string path(const char* name) const { return request_.state + "/" + name; }

  const Experiment& experiment_;
  const ServeRequest& request_;
  std::unique_ptr<StateWatch> watch_;
  bool finished_before_ = false;
  Federation commons_;
  FederationMetrics metrics_;
  std::unique_ptr<AuditLog> audit_;
  std::optional<Revocations> revocations_;
  std::unique_ptr<Coordinator> host_;
  std::unique_ptr<FederationServer> server_;
  std::unique_ptr<MetricsPage> page_;
};

Status Serving::check_state() {
  TESSERA_ASSIGN(const auto there, inspect_run(request_.state));
  finished_before_ = there == RunState::kFinished;
  if (!std::filesystem::exists(path("config.toml"))) return ok();
  TESSERA_ASSIGN(const auto theirs, read_file(path("config.toml")));
  return same_config(request_.state, std::string(text_of(theirs)), experiment_.toml());
}

// Public samples are the server's own; of everybody else's it keeps none.
Status Serving::load_commons() {
  if (experiment_.data.commons == 0) return ok();
  const auto seed = static_cast<uint64_t>(experiment_.run.seed);
  TESSERA_ASSIGN(commons_, load_federation(experiment_.data, derive(seed, Purpose::kPartition)));
  commons_.clients.clear(), commons_.newcomers.clear();
  return ok();
}

Status Serving::open(MemberNames names) {
  BoardOptions board_options{.members = names.size()};
  TESSERA_ASSIGN(auto book, MemberBook::open(request_.state, std::move(names)));
  TESSERA_ASSIGN(auto board, TaskBoard::open(path("spool"), board_options));
  TESSERA_ASSIGN(audit_, AuditLog::open(path("audit.jsonl")));
  if (!request_.server.insecure) {
    const auto& dir = request_.server.identity_dir;
    revocations_.emplace(dir + "/crl.pem", dir + "/ca.pem");
  }
  host_ = std::make_unique<Coordinator>(
      CoordinatorParts{.experiment = experiment_,
                       .book = std::move(book),
                       .board = std::move(board),
                       .log = *request_.log,
                       .audit = *audit_,
                       .metrics = metrics_,
                       .revocations = revocations_ ? &*revocations_ : nullptr,
                       .commons = &commons_.commons});
  auto options = request_.server;
  options.retry.hold =
      std::chrono::milliseconds(static_cast<int64_t>(1000 * experiment_.serve.hold));
  options.streams.idle =
      std::chrono::milliseconds(static_cast<int64_t>(1000 * experiment_.serve.stall));
  options.streams.grace = options.streams.idle / 2;
  TESSERA_ASSIGN(server_, FederationServer::start(options, *host_));
  if (!request_.metrics_address.empty()) {
    TESSERA_ASSIGN(page_, MetricsPage::open(request_.metrics_address,
                                            {.metrics =
                                                 [this] {
                                                   host_->status_json();  // renews the gauges
                                                   return metrics_.registry.text();
                                                 },
                                             .health = [this] { return server_->healthy(); }}));
    request_.log->info("metrics", {{"address", page_->address()}});
  }
  request_.log->info("listening", {{"address", server_->address()},
                                   {"federation", experiment_.run.name},
                                   {"members", host_->book().names().size()}});
  if (request_.on_listening) request_.on_listening(server_->address());
  return ok();
}

Status Serving::wait_for_start() {
  const auto& serve = experiment_.serve;
  const int64_t all = std::ssize(host_->book().names().clients);
  const int64_t wanted = serve.wait_for > 0 ? std::min(serve.wait_for, all) : all;
  host_->enter(FederationStage::kWaiting, 0, serve.start_deadline);
  const auto until =
      serve.start_deadline > 0
          ? Clock::now() + std::chrono::seconds(static_cast<int64_t>(serve.start_deadline))
          : Clock::time_point::max();
  if (host_->wait_for_clients(wanted, until, watch_->stop())) return ok();
  if (stopped()) return fail(Error::kInterrupted, "stopped; start it again to go on");
  return fail(Error::kBusy,
              "{} of {} clients have joined in {:.0f} s (serve.start_deadline); missing: {}",
              host_->book().clients_present(), wanted, serve.start_deadline,
              printable(join(host_->book().missing(), ", "), 200));
}

Status Serving::wait_for_quorum() {
  const auto& book = host_->book();
  const int64_t all = std::ssize(book.names().clients);
  int64_t left = 0;
  for (int64_t id = 0; id < all; ++id) left += book.has_left(id);
  if (left == all)
    return fail(Error::kBusy,
                "every client has left for good: there is nobody to go on with; what was learned "
                "is in {}",
                request_.state);
  const auto needed = std::clamp<int64_t>(experiment_.federation.min_replies, 1, all);
  if (host_->wait_for_clients(needed, Clock::now(), watch_->stop())) return ok();
  host_->note(fmt::format("fewer than {} clients are there; waiting for more", needed));
  const double seconds = experiment_.serve.deadline;
  const auto until =
      seconds > 0 ? Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds))
                  : Clock::time_point::max();
  host_->wait_for_clients(needed, until, watch_->stop());
  return stopped() ? fail(Error::kInterrupted, "stopped") : ok();
}

Result<nlohmann::json> Serving::play() {
  if (finished_before_) {
    TESSERA_ASSIGN(auto summary, read_finished(request_.state, experiment_.toml()));
    say_goodbye();
    return summary;
  }
  TESSERA_RETURN_IF_ERROR(wait_for_start());
  const auto session = host_->session();
  if (!session) return fail(Error::kInternal, "there are clients but no facts about their data");
  auto summary = rounds(bounded(*session));
  if (summary.ok()) say_goodbye();
  return summary;
}

Session Serving::bounded(const Session& session) {
  const auto& guards = session.guard().options();
  // These have a bound of their own.
  if (!guards.secure && (guards.reject || guards.clip || guards.dp)) return session;
  const auto unbounded = [&](const std::string& why) {
    request_.log->warning("no bound on uploads",
                          {{"text", why + ": one member can ruin the common model"}});
    return session;
  };
  if (guards.secure)
    return unbounded("guard 'secure-aggregation' hides from the server how long a change is");
  const double times = experiment_.serve.most_norm;
  if (times == 0) return unbounded("serve.most_norm = 0");
  auto out = session.with_guard(session.guard().with_reject({.times = times}));
  const auto& method = session.method();
  const auto state = method.init_server(session.client_setup(0));
  const auto setup = session.client_setup(1);
  TensorDict down;
  const Ask<TensorDict> ask{0, Why::kTrain};
  method.broadcast(*state, std::span(&ask, 1), setup,
                   [&](const auto&, TensorDict sent) { down = std::move(sent); });
  const auto checked =
      out.guard().check(method.expected(*state, Why::kTrain, setup), down, session.info().name);
  return checked.ok() ? out : unbounded(message(checked));
}

Result<nlohmann::json> Serving::rounds(const Session& session) {
  auto& book = host_->book();
  TESSERA_RETURN_IF_ERROR(book.fix_common());
  const auto& serve = experiment_.serve;
  GrpcEngine engine(
      host_->board(),
      {.present = [this](ClientId id) { return host_->there(id); },
       .name = [&](ClientId id) { return book.name_of(id); },
       .before_post = [this](const Task& task,
                             const std::string& ticket) { host_->note_posted(task, ticket); },
       .on_post = [this](const Task& task, const std::string&) { server_->wake(task.client); },
       .stop = watch_->stop()});
  Driver driver(session, experiment_.federation, engine, &commons_.commons);
  ServedRounds rules{.deadline = serve.deadline,
                     .over_select = serve.over_select,
                     .samples = [&book](ClientId id) { return book.samples(id); }};
  if (draws_in_secret(experiment_)) {
    TESSERA_ASSIGN(rules.draw_key, draw_key(request_.state));
  }
  driver.serve(rules);
  const auto roster = book.roster(experiment_.data.set);
  std::optional<RoundLoop> loop;
  LoopParts parts{.experiment = experiment_,
                  .roster = roster,
                  .session = session,
                  .driver = driver,
                  .out = request_.state,
                  .awaited = Awaited::kAnybody,
                  .go_on = "start it again to go on",
                  .stop = watch_->stop(),
                  .on_progress =
                      [&](const Progress& progress) {
                        const bool training = progress.stage == RunStage::kTraining;
                        host_->enter(
                            training ? FederationStage::kTraining : FederationStage::kEvaluating,
                            progress.round + training, serve.deadline);
                        metrics_.members_present.set(static_cast<double>(book.clients_present()));
                        if (request_.on_progress) request_.on_progress(progress);
                      },
                  .on_note = [this](const std::string& text) { host_->note(text); }};
  parts.before_round = [this] { return wait_for_quorum(); };
  parts.on_round = [&](const RoundReport& report) {
    host_->note_round(report, driver.cohort(report.round));
  };
  parts.on_saved = [this] { return host_->board().forget_delivered(); };
  loop.emplace(std::move(parts));
  TESSERA_RETURN_IF_ERROR(driver.meet_clients());
  TESSERA_RETURN_IF_ERROR(loop->resume());
  TESSERA_RETURN_IF_ERROR(loop->play());
  return loop->finish();
}

void Serving::say_goodbye() {
  auto& board = host_->board();
  const auto start = Clock::now();  // first: what is told below must count as later
  board.finish();
  server_->wake();
  host_->enter(FederationStage::kFinished, experiment_.run.rounds, request_.linger);
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const auto told = [&](int64_t id) {
    if (!host_->there(id)) return true;
    const auto state = board.member(id);
    return !state.settle_waits && state.seconds_since_poll >= 0 &&
           state.seconds_since_poll < elapsed();
  };
  const int64_t all = host_->book().names().size();
  while (elapsed() < request_.linger && !stopped()) {
    bool everybody = true;
    for (int64_t id = 0; id < all && everybody; ++id) everybody = told(id);
    // The answer to a poll needs a moment to leave.
    if (everybody) return std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

Result<MemberNames> members_of(const Experiment& experiment) {
  MemberNames out{natural_list(experiment.serve.members), natural_list(experiment.serve.newcomers)};
  if (out.clients.empty()) {
    const auto& data = experiment.data;
    if (data.clients < 1)
      return fail(Error::kInvalid,
                  "[serve] members is not set: name the clients as in their certificates, members "
                  "= \"north,south\"");
    for (int64_t id = 0; id < data.clients; ++id) out.clients.push_back(std::to_string(id));
    if (out.newcomers.empty())
      for (int64_t id = 0; id < data.newcomers; ++id)
        out.newcomers.push_back(std::to_string(data.clients + id));
  }
  for (const auto* group : {&out.clients, &out.newcomers})
    for (const auto& name : *group)
      TESSERA_RETURN_IF_ERROR(at_place(check_member_name(name), "[serve]"));
  return out;
}

Result<nlohmann::json> serve_federation(const Experiment& experiment, const ServeRequest& request) {
  try {
    return Serving(experiment, request).run();
  } catch (const std::bad_alloc&) {
    return fail(Error::kIo, "out of memory; fewer members per round or a smaller model need less");
  } catch (const std::exception& error) {
    return fail(Error::kInternal, "method {}: {}", experiment.method.name,
                first_line(error.what()));
  }
}

}  // namespace tessera

#include "run/driver.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/clock.hpp"
#include "base/key.hpp"
#include "base/text.hpp"
#include "guard/frame.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "run/intake.hpp"

namespace tessera {
namespace {

// Empty if every number that was measured is finite, else which view is not.
std::string diverged_view(const Evaluation& e) {
  const auto bad = [](const ClientMetrics& m) { return m.n > 0 && !std::isfinite(m.loss); };
  if (bad(e.pre_test) || bad(e.pre_val)) return "pre";
  if (bad(e.post_test) || bad(e.post_val)) return "post";
  if ((e.global_test && bad(*e.global_test)) || (e.global_val && bad(*e.global_val)))
    return "global";
  return "";
}

void sort_by_client(std::vector<Problem>& problems) {
  std::stable_sort(problems.begin(), problems.end(),
                   [](const Problem& a, const Problem& b) { return a.client < b.client; });
}

}  // namespace

Driver::Driver(const Session& session, const FederationOptions& options, Engine& engine,
               const ClientData* commons)
    : session_(session), options_(options), engine_(engine), commons_(commons) {}

Status Driver::meet_clients() {
  std::map<ClientId, Status> problems;
  names_.resize(static_cast<size_t>(session_.everybody()));
  samples_.resize(names_.size());
  engine_.run(
      [&](const Post& post) {
        for (ClientId id = 0; id < session_.everybody(); ++id) post({.client = id});
      },
      {},
      [&](const Reply& reply) {
        if (!reply.status.ok()) problems.emplace(reply.client, reply.status);
        if (!reply.hello) return;
        const auto& told = *reply.hello;
        names_.at(static_cast<size_t>(reply.client)) = told.name;
        samples_.at(static_cast<size_t>(reply.client)) = told.train + told.val + told.support;
      });
  return problems.empty() ? ok() : problems.begin()->second;
}

double Driver::most_weight(ClientId client) const {
  const auto at = static_cast<size_t>(client);
  const int64_t samples = served_ && served_->samples ? served_->samples(client)
                          : at < samples_.size()      ? samples_[at]
                                                      : 0;
  // A pooled reference stands for everybody.
  if (session_.info().pooled || samples == 0) return INFINITY;
  return static_cast<double>(samples) * (session_.guard().options().counts ? 2 : 1);
}

std::string Driver::name_of(ClientId client) const {
  const auto at = static_cast<size_t>(client);
  return at < names_.size() && !names_[at].empty() ? names_[at] : std::to_string(client);
}

std::optional<Weights> Driver::global(int64_t round) const {
  return session_.method().global(*state_, setup(round + 1));
}

Status Driver::begin() {
  try {
    state_ = session_.method().init_server(setup(0));
  } catch (const std::exception& error) {
    return fail(Error::kInternal, "method {}, start, server: {}", session_.info().name,
                first_line(error.what()));
  }
  return check_guard();
}

Status Driver::check_guard() const {
  if (!session_.guard().active() || session_.clients() == 0) return ok();
  if (const auto each = session_.method().why_each(); session_.guard().hides() && !each.empty())
    return fail(Error::kInvalid, "guard 'secure-aggregation' does not go with {}: {}",
                session_.info().name, each);
  if (session_.guard().hides() && session_.method().judges())
    return fail(Error::kInvalid,
                "guard 'secure-aggregation' does not go with {}: its server judges every upload by "
                "its content, which the guard hides; remove it, or choose another method",
                session_.info().name);
  TESSERA_ASSIGN(const auto down, first_download(0));
  return session_.guard().check(session_.method().expected(*state_, Why::kTrain, setup(1)), down,
                                session_.info().name);
}

Status Driver::restore(const TensorDict& server) {
  try {
    state_ = session_.method().restore_server(server, setup(0));
  } catch (const std::exception& error) {
    return fail(Error::kInvalid, "the server's state is none of method {}: {}",
                session_.info().name, first_line(error.what()));
  }
  return ok();
}

Result<TensorDict> Driver::first_download(ClientId client, Why why) const {
  TensorDict out;
  try {
    const Asks asks{{client, why}};
    session_.method().broadcast(*state_, asks, setup(1),
                                [&](const auto&, TensorDict down) { out = std::move(down); });
  } catch (const std::exception& error) {
    return fail(Error::kInternal, "method {}, server: {}", session_.info().name,
                first_line(error.what()));
  }
  return out;
}

std::vector<ClientId> Driver::cohort(int64_t round) const {
  // A pooled reference is one pseudo-client that holds everything.
  if (session_.info().pooled) return {0};
  const auto key = served_ && served_->draw_key ? *served_->draw_key : session_.seed();
  if (session_.guard().draws_one_by_one())
    return cohort_one_by_one(key, round, session_.clients(), options_.participation);
  const double more = served_ ? 1 + served_->over_select : 1;
  return cohort_of(key, round, session_.clients(), options_.participation * more);
}

bool Driver::is_lost(int64_t round, ClientId client, int64_t moment) const {
  if (!is_dropped(session_.seed(), round, client, options_.drop_rate)) return false;
  return !session_.guard().hides() || dropped_at(session_.seed(), round, client) == moment;
}

Limits Driver::limits(int64_t enough) const {
  Limits out;
  if (served_ && served_->deadline > 0)
    out.deadline = std::chrono::steady_clock::now() +
                   std::chrono::milliseconds(static_cast<int64_t>(1000 * served_->deadline));
  if (served_ && served_->over_select > 0) out.enough = enough;
  return out;
}

Status Driver::settle(const std::vector<ClientId>& asked, const std::vector<ClientId>& accepted,
                      int64_t round, int64_t attempt) {
  Status status;
  engine_.run(
      [&](const Post& post) {
        for (const ClientId id : asked)
          post({.client = id,
                .kind = TaskKind::kSettle,
                .round = round,
                .attempt = attempt,
                .accepted = std::binary_search(accepted.begin(), accepted.end(), id)});
      },
      {}, [&](const Reply& reply) { status.Update(reply.status); });
  return status;
}

Result<RoundReport> Driver::play(int64_t round) {
  try {
    return play_round(round);
  } catch (const std::exception& error) {  // of an engine: nobody knows what became of the round
    return fail(Error::kInternal, "method {}, round {}, server: {}", session_.info().name, round,
                first_line(error.what()));
  }
}

Result<RoundReport> Driver::play_round(int64_t round) {
  RoundReport report{.round = round};
  const double start = wall_seconds();
  const double cpu_start = thread_cpu_seconds();
  const bool pooled = session_.info().pooled;
  const auto here = setup(round);
  // A served round that is taken up again is the same attempt: uploads that are there count.
  const int64_t attempt = served_ ? 1 : ++attempts_;
  Asks asks;
  std::vector<ClientId> asked;
  for (const ClientId id : cohort(round)) {
    asks.push_back({id, Why::kTrain});
    if (pooled || !is_lost(round, id)) asked.push_back(id);
  }
  report.cohort = std::ssize(asks);
  report.dropped = std::ssize(asks) - std::ssize(asked);
  // A server half that throws costs the round, never the run; clients go back to where they were.
  const auto failed = [&](const std::string& error, const std::vector<ClientId>& in_it) {
    report.failure = fmt::format("method {}, server: {}", session_.info().name,
                                 printable(first_line(error), kMostReason));
    report.counted = false;
    for (const ClientId id : in_it)
      report.problems.push_back({Problem::Kind::kServer, id, report.failure});
    report.wall_seconds = wall_seconds() - start;
    return settle(asked, {}, round, attempt);
  };
  std::optional<Intake> taken;
  try {
    taken.emplace(*this, here, asked);
  } catch (const std::exception& error) {
    TESSERA_RETURN_IF_ERROR(failed(error.what(), {}));
    return report;
  }
  auto& intake = *taken;
  DownloadFrames frames(session_.guard().zstd());
  double before = 0, cpu_before = 0;  // when the first client was asked
  std::optional<std::string> thrown;  // by broadcast()
  const auto send = [&](const Post& post) {
    session_.method().broadcast(*state_, asks, here, [&](const auto& ask, TensorDict down) {
      if (before == 0) before = wall_seconds(), cpu_before = thread_cpu_seconds();
      const int64_t bytes = pooled ? 0 : payload_bytes(down);
      report.bytes_down += bytes;
      // A lost client has received the model; what is lost is its answer.
      if (!std::binary_search(asked.begin(), asked.end(), ask.client)) {
        report.wire_down += encoded_size(frames.make(std::move(down)));
        return;
      }
      intake.sent(ask.client, bytes, down);
      post({.client = ask.client,
            .kind = TaskKind::kTrain,
            .round = round,
            .attempt = attempt,
            .down = frames.make(std::move(down))});
    });
  };
  // A simulation waits for everybody; to know how many a round needs costs a walk over all clients.
  const auto needed = served_ ? std::ssize(cohort_of(session_.seed(), round, session_.clients(),
                                                     options_.participation))
                              : 0;
  auto until = limits(needed);
  until.sum = intake.order();
  until.most_upload = intake.most_upload();
  try {
    engine_.run(
        [&](const Post& post) {
          bool posting = false;  // what an engine throws is no fault of the method
          try {
            send([&](Task task) {
              posting = true;
              post(std::move(task));
              posting = false;
            });
          } catch (const std::exception& error) {
            if (!posting) thrown = error.what();
            throw;
          }
        },
        until, [&](Reply reply) { intake.take(std::move(reply)); });
  } catch (const std::exception&) {
    if (!thrown) throw;
    TESSERA_RETURN_IF_ERROR(failed(*thrown, {}));
    return report;
  }
  intake.close(round, attempt);
  const double after = wall_seconds(), cpu_after = thread_cpu_seconds();
  report.train_seconds = after - before;
  report.dropped += intake.dropped;
  report.bytes_down += intake.bytes_down;
  report.bytes_up = intake.bytes_up;
  report.wire_down += intake.wire_down, report.wire_up = intake.wire_up;
  report.problems = std::move(intake.problems);
  sort_by_client(report.problems);
  report.rejected = std::ssize(report.problems);
  report.loss = intake.mean_loss();
  report.sim_seconds = intake.slowest + 2 * options_.latency;
  auto accepted = intake.accepted();
  if (!intake.interrupted.ok()) {
    if (!served_) TESSERA_RETURN_IF_ERROR(settle(asked, {}, round, attempt));
    return intake.interrupted;
  }
  if (!served_ && !asked.empty() && accepted.empty() && !intake.by_chance()) {
    TESSERA_RETURN_IF_ERROR(settle(asked, {}, round, attempt));
    return fail(Error::kInternal,
                "round {}: every upload was rejected (client {}: {}); if training diverged, lower "
                "train.lr or the method's own rates",
                round, name_of(report.problems.front().client), report.problems.front().reason);
  }
  auto gathered = intake.gathered();
  std::vector<TensorDict*> bodies;
  for (auto& upload : gathered.uploads) bodies.push_back(&upload);
  session_.guard().finish(bodies, intake.reference(), std::ssize(accepted),
                          derive(session_.seed(), Purpose::kGuard, round, session_.everybody()));
  gathered.count = session_.guard().divided_by(std::ssize(accepted));
  report.counted = std::ssize(accepted) >= options_.min_replies && !gathered.uploads.empty();
  if (!report.counted) accepted.clear();
  try {
    if (report.counted) state_ = session_.method().aggregate(*state_, std::move(gathered), here);
  } catch (const std::exception& error) {
    TESSERA_RETURN_IF_ERROR(failed(error.what(), accepted));
    return report;
  }
  TESSERA_RETURN_IF_ERROR(settle(asked, accepted, round, attempt));
  // The server's own work: CPU time, as of the clients. Wall time would add whoever else computes
  // on this machine.
  report.sim_seconds += (cpu_before - cpu_start) + (thread_cpu_seconds() - cpu_after);
  report.wall_seconds = wall_seconds() - start;
  return report;
}

void Driver::ask_of_sum(std::vector<SumAsk> asks, int64_t most,
                        const std::function<void(SumAnswer)>& take) const {
  auto until = limits();
  until.most_upload = most;
  engine_.run(
      [&](const Post& post) {
        for (auto& ask : asks)
          post({.client = ask.client,
                .kind = TaskKind::kGuard,
                .round = ask.round,
                .attempt = ask.attempt,
                .down = std::move(ask.down)});
      },
      until,
      [&](Reply reply) {
        take({reply.client, reply.status, std::move(reply.up), reply.cpu_seconds, reply.wire_down,
              reply.wire_up});
      });
}

Status Driver::judged(const TensorDict& up, const Setup& setup) const {
  try {
    return because(Reason::kRefused, session_.method().accept(*state_, up, setup));
  } catch (const std::exception& error) {
    return because(Reason::kRefused, fail(Error::kInvalid, "{}", first_line(error.what())));
  }
}

Driver::Asks Driver::newcomers(const std::vector<std::optional<TensorDict>>& guests) const {
  Asks asks;
  for (size_t i = 0; i < guests.size(); ++i)
    asks.push_back({session_.clients() + static_cast<ClientId>(i), Why::kJoin,
                    guests[i] ? &*guests[i] : nullptr});
  return asks;
}

Status Driver::exchange(const Setup& setup, int64_t number,
                        std::vector<std::optional<TensorDict>>& guests, EvalReport& report) {
  const auto& method = session_.method();
  const auto expected = session_.guard().form(method.expected(*state_, Why::kJoin, setup));
  auto until = limits();
  until.most_upload = most_upload(expected);
  const auto asks = newcomers(guests);
  std::map<ClientId, TensorDict> uploads;
  std::vector<ClientId> asked, accepted;
  Status interrupted;
  engine_.run(
      [&](const Post& post) {
        method.broadcast(*state_, asks, setup, [&](const auto& ask, TensorDict down) {
          report.onboard_down += payload_bytes(down);
          asked.push_back(ask.client);
          post({.client = ask.client,
                .kind = TaskKind::kJoin,
                .round = setup.round,
                .attempt = number,
                .down = std::move(down)});
        });
      },
      until,
      [&](Reply reply) {
        if (error_of(reply.status) == Error::kInterrupted) interrupted = reply.status;
        report.onboard_up += payload_bytes(reply.up);
        auto status = fault_in(reply, method, expected);
        if (status.ok()) status = judged(reply.up, setup);
        if (status.ok())
          uploads.emplace(reply.client, std::move(reply.up));
        else
          report.problems.push_back({Problem::Kind::kJoin, reply.client,
                                     fmt::format("exchange {}: {}", number, message(status)),
                                     reason_of(status)});
      });
  for (const auto& [client, up] : uploads) {
    auto& guest = guests[static_cast<size_t>(client - session_.clients())];
    guest = method.learn(*state_, guest ? &*guest : nullptr, up, setup);
    accepted.push_back(client);
  }
  TESSERA_RETURN_IF_ERROR(settle(asked, accepted, setup.round, number));
  return interrupted;
}

Result<std::vector<std::optional<TensorDict>>> Driver::meet_newcomers(const Setup& setup,
                                                                      EvalReport& report) {
  std::vector<std::optional<TensorDict>> guests(static_cast<size_t>(session_.newcomers()));
  report.exchanges = guests.empty() ? 0 : session_.method().exchanges();
  for (int64_t number = 1; number <= report.exchanges; ++number)
    TESSERA_RETURN_IF_ERROR(exchange(setup, number, guests, report));
  return guests;
}

Result<EvalReport> Driver::evaluate(int64_t round) {
  try {
    return evaluate_after(round);
  } catch (const std::exception& error) {
    return fail(Error::kInternal, "method {}, evaluation after round {}, server: {}",
                session_.info().name, round, first_line(error.what()));
  }
}

Result<EvalReport> Driver::evaluate_after(int64_t round) {
  EvalReport report{.round = round};
  const auto& method = session_.method();
  const auto here = setup(round + 1);
  const bool last = round == here.rounds;
  Evaluated evaluated;
  evaluated.clients = evaluated_clients(session_.seed(), session_.clients(), options_.eval_clients);
  TESSERA_ASSIGN(const auto guests, meet_newcomers(here, report));
  Asks asks;
  for (const ClientId id : evaluated.clients) asks.push_back({id, Why::kEvaluate});
  for (const auto& ask : newcomers(guests)) asks.push_back(ask);
  const auto next = last ? std::vector<ClientId>{} : cohort(round + 1);
  const auto global = method.global(*state_, here);
  std::map<ClientId, Evaluation> results;
  Status interrupted;
  engine_.run(
      [&](const Post& post) {
        method.broadcast(*state_, asks, here, [&](const auto& ask, TensorDict down) {
          (ask.why == Why::kJoin ? report.onboard_down : report.eval_down) += payload_bytes(down);
          const bool trains = std::binary_search(next.begin(), next.end(), ask.client) &&
                              !is_lost(round + 1, ask.client);
          post({.client = ask.client,
                .kind = TaskKind::kEvaluate,
                .round = round + 1,
                .down = std::move(down),
                .global = global,
                .keep_step = trains,
                .last = last});
        });
      },
      limits(),
      [&](Reply reply) {
        if (error_of(reply.status) == Error::kInterrupted) interrupted = reply.status;
        std::string reason = message(reply.status);
        if (reply.status.ok() && !reply.evaluation) reason = "the reply has no evaluation";
        const auto view = reply.evaluation ? diverged_view(*reply.evaluation) : "";
        if (reason.empty() && !view.empty())
          reason = fmt::format(
              "the model of the {} view diverged: its loss is not finite; lower "
              "train.lr or the method's own rates",
              view);
        if (reason.empty())
          results.emplace(reply.client, *std::move(reply.evaluation));
        else
          report.problems.push_back({Problem::Kind::kEvaluation, reply.client, reason});
      });
  TESSERA_RETURN_IF_ERROR(interrupted);
  sort_by_client(report.problems);
  for (auto& [client, result] : results) {
    const bool newcomer = session_.is_newcomer(client);
    (newcomer ? report.onboard_up : report.eval_up) += payload_bytes(result.notes);
    if (!newcomer && !result.notes.empty()) evaluated.notes.emplace(client, result.notes);
    (newcomer ? report.newcomers : report.clients).push_back(std::move(result));
  }
  report.exhibits = method.exhibits(*state_, evaluated, here);
  return report;
}

}  // namespace tessera

#include "run/driver.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/clock.hpp"
#include "base/key.hpp"
#include "base/parallel.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

// Empty if every number of the upload is finite, else which tensor is not.
std::string not_finite(const TensorDict& up) {
  for (const auto& [name, tensor] : up)
    if (tensor.is_floating_point() && !at::isfinite(tensor).all().item<bool>()) return name;
  return "";
}

}  // namespace

std::vector<ClientId> cohort_of(uint64_t seed, int64_t round, int64_t clients,
                                double participation) {
  // Rounded up, but 0.1 * 30 is 3 although the product of doubles is a little more.
  const double exact = participation * static_cast<double>(clients);
  const auto size = static_cast<int64_t>(std::ceil(exact - 1e-9));
  return Rng(derive(seed, Purpose::kCohort, round))
      .sample(clients, std::clamp<int64_t>(size, 1, clients));
}

bool is_dropped(uint64_t seed, int64_t round, ClientId client, double drop_rate) {
  return Rng(derive(seed, Purpose::kDrop, round, client)).uniform() < drop_rate;
}

double slowdown_of(uint64_t seed, ClientId client, const FederationOptions& options) {
  const bool slow = Rng(derive(seed, Purpose::kStraggler, client)).uniform() < options.stragglers;
  return slow ? options.slowdown : 1.0;
}

Status suits(const AnyMethod& method, const Setup& setup, const Federation& federation) {
  TESSERA_RETURN_IF_ERROR(method.check(setup));
  for (const auto* group : {&federation.clients, &federation.newcomers})
    for (const auto& data : *group)
      TESSERA_RETURN_IF_ERROR(at_place(method.check(data), "client " + data.name));
  return ok();
}

Driver::Driver(const DriverSetup& setup, Engine& engine)
    : setup_(setup), engine_(engine), server_(setup.method.init_server(setup.setup)) {
  attend(0);
}

void Driver::attend(int64_t round) {
  if (setup_.commons == nullptr || setup_.commons->train_size() == 0) return;
  const Local local{setup_.setup.model, *setup_.commons, round,
                    derive(setup_.seed, Purpose::kCommons, round)};
  server_ = setup_.method.attend(std::move(server_), local);
}

std::vector<Outgoing> Driver::messages(int64_t round, RoundReport& report) const {
  const auto& options = setup_.options;
  // A pooled reference is one pseudo-client that holds everything.
  const auto cohort = setup_.info.pooled ? std::vector<ClientId>{0}
                                         : cohort_of(setup_.seed, round, setup_.setup.clients,
                                                     options.participation);
  report.cohort = static_cast<int64_t>(cohort.size());
  const auto server = setup_.method.convene(server_, cohort);
  std::vector<Outgoing> out;
  for (const ClientId id : cohort) {
    auto down = setup_.method.broadcast(server, id);
    // A lost client has received the model; what is lost is its answer.
    if (!setup_.info.pooled) report.bytes_down += payload_bytes(down);
    if (!setup_.info.pooled && is_dropped(setup_.seed, round, id, options.drop_rate)) {
      ++report.dropped;
      report.wire_down += encoded_size(down);
    } else {
      out.push_back({id, round, std::move(down)});
    }
  }
  return out;
}

Driver::Sorted Driver::sort_out(std::vector<Reply> replies, std::span<const int64_t> down,
                                RoundReport& report) const {
  std::vector<std::string> bad(replies.size());
  parallel_for(static_cast<int64_t>(replies.size()), setup_.threads, [&](int64_t i) {
    bad[static_cast<size_t>(i)] = not_finite(replies[static_cast<size_t>(i)].up);
  });
  Sorted out;
  double loss = 0, slowest = 0;
  const auto& options = setup_.options;
  for (size_t i = 0; i < replies.size(); ++i) {
    auto& reply = replies[i];
    if (error_of(reply.status) == Error::kInterrupted) out.interrupted = reply.status;
    // What was sent was sent, also when it is rejected below.
    const int64_t up = setup_.info.pooled ? 0 : payload_bytes(reply.up);
    report.bytes_up += up;
    if (!setup_.info.pooled) report.wire_down += reply.wire_down, report.wire_up += reply.wire_up;
    if (!reply.status.ok() || !bad[i].empty()) {
      ++report.rejected;
      report.problems.push_back(
          !reply.status.ok() ? message(reply.status)
                             : fmt::format("client {}: '{}' is not finite", reply.client, bad[i]));
      continue;
    }
    loss += reply.loss;
    const double transfer = 8e-6 / options.bandwidth;  // seconds per byte
    slowest =
        std::max(slowest, transfer * static_cast<double>(down[i] + up) +
                              reply.cpu_seconds * slowdown_of(setup_.seed, reply.client, options));
    out.accepted.push_back(reply.client);
    out.uploads.push_back({reply.client, reply.base_round, std::move(reply.up)});
  }
  report.loss =
      out.accepted.empty() ? std::nan("") : loss / static_cast<double>(out.accepted.size());
  report.sim_seconds = slowest + 2 * options.latency;
  return out;
}

Result<RoundReport> Driver::play(int64_t round) {
  RoundReport report{.round = round};
  const double start = wall_seconds();
  std::vector<Outgoing> outgoing;
  try {
    outgoing = messages(round, report);
  } catch (const std::exception& error) {
    return fail(Error::kInternal, "method {}, round {}, server: {}", setup_.info.name, round,
                error.what());
  }
  const bool asked = !outgoing.empty();
  std::vector<int64_t> down;
  for (const auto& one : outgoing) down.push_back(setup_.info.pooled ? 0 : payload_bytes(one.down));
  const double before = wall_seconds();
  auto replies = engine_.exchange(std::move(outgoing));
  report.train_seconds = wall_seconds() - before;
  auto sorted = sort_out(std::move(replies), down, report);
  if (!sorted.interrupted.ok()) {
    engine_.acknowledge({});
    return sorted.interrupted;
  }
  if (asked && sorted.accepted.empty()) {
    engine_.acknowledge({});
    return fail(Error::kInternal,
                "round {}: every upload was rejected ({}); if training diverged, lower train.lr or "
                "the method's own rates",
                round, report.problems.front());
  }
  const double server = wall_seconds();
  if (static_cast<int64_t>(sorted.accepted.size()) >= setup_.options.min_replies) {
    try {
      server_ = setup_.method.aggregate(std::move(server_), std::move(sorted.uploads));
      attend(round);
    } catch (const std::exception& error) {
      return fail(Error::kInternal, "method {}, round {}, server: {}", setup_.info.name, round,
                  error.what());
    }
    engine_.acknowledge(sorted.accepted);
  } else {
    engine_.acknowledge({});
  }
  report.sim_seconds += (before - start) + (wall_seconds() - server);
  report.wall_seconds = wall_seconds() - start;
  return report;
}

Result<std::vector<Outgoing>> Driver::onboard(const TensorDict& server, int64_t round,
                                              EvalReport& report) {
  const auto& method = setup_.method;
  std::vector<TensorDict> guests(static_cast<size_t>(setup_.newcomers), method.greet(server));
  const auto messages = [&](int64_t exchange) {
    std::vector<Outgoing> out;
    for (size_t i = 0; i < guests.size(); ++i) {
      const auto id = setup_.setup.clients + static_cast<ClientId>(i);
      out.push_back({id, round + 1, method.broadcast_guest(server, guests[i], id), exchange});
      report.onboard_down += payload_bytes(out.back().down);
    }
    return out;
  };
  report.exchanges = guests.empty() ? 0 : method.exchanges();
  for (int64_t exchange = 1; exchange <= report.exchanges; ++exchange) {
    auto replies = engine_.exchange(messages(exchange));
    std::vector<ClientId> accepted;
    for (size_t i = 0; i < replies.size(); ++i) {
      auto& reply = replies[i];
      if (error_of(reply.status) == Error::kInterrupted) {
        engine_.acknowledge({});
        return reply.status;
      }
      report.onboard_up += payload_bytes(reply.up);
      const auto bad = reply.status.ok() ? not_finite(reply.up) : message(reply.status);
      if (!bad.empty()) {
        report.problems.push_back(
            fmt::format("newcomer {}, exchange {}: {}", reply.client, exchange,
                        reply.status.ok() ? "'" + bad + "' is not finite" : bad));
        continue;
      }
      guests[i] = method.learn(server, std::move(guests[i]), std::move(reply.up));
      accepted.push_back(reply.client);
    }
    engine_.acknowledge(accepted);
  }
  return messages(0);
}

Result<EvalReport> Driver::evaluate(int64_t round, const PersonalSink& sink) {
  EvalReport report{.round = round};
  const auto answer = [&]() -> Status {
    std::vector<ClientId> everybody(static_cast<size_t>(setup_.setup.clients));
    std::iota(everybody.begin(), everybody.end(), 0);
    const auto server = setup_.method.convene(server_, everybody);
    const auto global = setup_.method.global(server);
    std::vector<EvalRequest> requests;
    for (const ClientId id : everybody) {
      requests.push_back({{id, round + 1, setup_.method.broadcast_eval(server, id)}, global});
      report.eval_down += payload_bytes(requests.back().message.down);
    }
    TESSERA_ASSIGN(auto newcomers, onboard(server, round, report));
    for (auto& one : newcomers) requests.push_back({std::move(one), global});
    Notes notes;
    for (auto& result : engine_.evaluate(std::move(requests), sink)) {
      TESSERA_RETURN_IF_ERROR(result.status);
      const bool newcomer = result.client >= setup_.setup.clients;
      (newcomer ? report.onboard_up : report.eval_up) += payload_bytes(result.notes);
      if (!newcomer && !result.notes.empty()) notes.emplace(result.client, result.notes);
      (newcomer ? report.newcomers : report.clients).push_back(std::move(result));
    }
    report.exhibits = setup_.method.exhibits(server, notes);
    return ok();
  };
  Status status;
  try {
    status = answer();
  } catch (const std::exception& error) {
    status = fail(Error::kInternal, "method {}, evaluation after round {}, server: {}",
                  setup_.info.name, round, error.what());
  }
  // Every evaluation meets newcomers as strangers: what it shows is what joining now would give.
  for (int64_t i = 0; i < setup_.newcomers; ++i) engine_.forget(setup_.setup.clients + i);
  TESSERA_RETURN_IF_ERROR(status);
  return report;
}

}  // namespace tessera

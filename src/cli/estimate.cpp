#include "cli/estimate.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "base/clock.hpp"
#include "base/memory.hpp"
#include "guard/secure_aggregation/hidden_sum.hpp"
#include "run/simulation.hpp"

namespace tessera {
namespace {

constexpr size_t kRows = 256;  // of each part: enough for a few batches

/// With at most kRows rows in every part of every client.
Federation shortened(Federation federation) {
  for (auto* group : {&federation.clients, &federation.newcomers})
    for (auto& client : *group)
      for (auto* part : {&client.train, &client.val, &client.test, &client.support})
        part->resize(std::min(part->size(), kRows));
  federation.commons.train.resize(std::min(federation.commons.train.size(), kRows));
  return federation;
}

double rows_of(const std::vector<ClientData>& clients) {
  double out = 0;
  for (const auto& client : clients)
    out += static_cast<double>(client.size(Part::kTrain) + client.size(Part::kVal) +
                               client.size(Part::kTest));
  return out;
}

/// What arrives at the server of an upload in round 1.
Opened opened(Simulation& simulation, const TensorDict& download, const TensorDict& up,
              const Federation& federation) {
  const auto& session = simulation.session();
  const auto setup = session.server_setup(1, &federation.commons);
  const auto state = session.method().restore_server(simulation.driver().server(), setup);
  const auto expected = session.method().expected(*state, Why::kTrain, setup);
  return session.guard().open(up, expected, session.guard().references(download, expected));
}

/// What the server gets of one that only the sum may show.
Opened held(Simulation& simulation, const Experiment& experiment, const Federation& federation) {
  const auto& session = simulation.session();
  const auto setup = session.server_setup(1, &federation.commons);
  const auto state = session.method().restore_server(simulation.driver().server(), setup);
  const auto expected = session.method().expected(*state, Why::kTrain, setup);
  const auto cohort = cohort_of(session.seed(), 1, std::ssize(federation.clients),
                                experiment.federation.participation);
  return {expected, hidden_traffic(expected, session.guard().parts(), std::ssize(cohort)).up};
}

double peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

}  // namespace

Result<Estimate> estimate_run(const Experiment& experiment, const Federation& federation,
                              int threads) {
  const auto small = shortened(federation);
  TESSERA_ASSIGN(auto session, make_session(experiment, small));
  Simulation simulation(std::move(session), small, experiment.federation);
  TESSERA_RETURN_IF_ERROR(simulation.driver().begin());
  TESSERA_ASSIGN(const auto download, simulation.driver().first_download(0));
  Task task{.client = 0, .kind = TaskKind::kTrain, .round = 1, .attempt = 1, .down = download};
  // The first call allocates; the second one shows what every further one costs.
  TESSERA_RETURN_IF_ERROR(simulation.host().handle(task).status);
  const double before_training = wall_seconds();
  const auto trained = simulation.host().handle(task);
  TESSERA_RETURN_IF_ERROR(trained.status);
  const double training = wall_seconds() - before_training;
  const bool hides = simulation.session().guard().hides();
  const auto upload = hides ? held(simulation, experiment, federation)
                            : opened(simulation, download, trained.up, small);
  TESSERA_RETURN_IF_ERROR(upload.up.status());
  task.kind = TaskKind::kEvaluate;
  TESSERA_ASSIGN(task.down, simulation.driver().first_download(0, Why::kEvaluate));
  const double before_evaluating = wall_seconds();
  TESSERA_RETURN_IF_ERROR(simulation.host().handle(task).status);
  const double evaluating = wall_seconds() - before_evaluating;

  const bool pooled = experiment.method.pooled;
  const auto clients = static_cast<double>(federation.clients.size());
  const double tried =
      pooled ? rows_of(small.clients) : std::max(1.0, rows_of({small.clients.front()}));
  const double asked =
      pooled ? 1 : std::ceil(experiment.federation.participation * clients - 1e-9) / clients;
  const double in_all = rows_of(federation.clients) / tried;  // trials in a round of everybody
  const double rounds = static_cast<double>(experiment.run.rounds);
  const double evaluations =
      std::ceil(rounds / static_cast<double>(experiment.federation.eval_every));
  const auto sample = static_cast<double>(experiment.federation.eval_clients);
  const double evaluated = sample > 0 ? std::min(1.0, sample / clients) : 1;
  const int used = pooled ? 1 : threads;
  Estimate out;
  out.seconds =
      (training * in_all * asked * rounds + evaluating * in_all * evaluated * evaluations) / used;
  // Those that only their sum may show wait for it.
  const double uploads =
      simulation.session().method().sum_will_do() && !hides ? 2 * used : asked * clients;
  // Only a settled state is the client's.
  task.kind = TaskKind::kSettle, task.down = {}, task.accepted = true;
  TESSERA_RETURN_IF_ERROR(simulation.host().handle(task).status);
  if (const auto state = simulation.store().get(0)) out.bytes_kept = payload_bytes(*state);
  // States beyond their share of [run] memory are on the disk.
  const double states = std::min(clients * static_cast<double>(out.bytes_kept),
                                 static_cast<double>(experiment.machine.third()));
  const auto& method = simulation.session().method();
  out.server = server_memory(method, simulation.session().server_setup(0, &federation.commons),
                             static_cast<double>(available_memory()));
  out.memory = peak_memory() + uploads * static_cast<double>(payload_bytes(*upload.up)) + states +
               out.server.bytes;
  if (!pooled) out.bytes_down = payload_bytes(download), out.bytes_up = upload.bytes;
  return out;
}

}  // namespace tessera

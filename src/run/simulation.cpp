#include "run/simulation.hpp"

#include <numeric>

#include "base/key.hpp"
#include "base/memory.hpp"
#include "base/text.hpp"
#include "guard/secure_aggregation/sum/sum_plan.hpp"
#include "model/fast/kernels.hpp"
#include "run/guard_sections.hpp"
#include "run/pooled.hpp"
#include "run/warm_start.hpp"
#include "train/virtual_steps.hpp"

namespace tessera {

namespace {

TrainOptions resolved(TrainOptions train, bool multi_label_loss) {
  if (train.loss == "auto") train.loss = multi_label_loss ? "multilabel" : "ce";
  return train;
}

// By the experiment's kernels; where it leaves the choice open, the caller may have a KernelScope.
Result<std::unique_ptr<Model>> network_of(const Experiment& experiment, const Shape& shape) {
  if (experiment.machine.kernels == "auto") return make_model(experiment.model, shape);
  TESSERA_ASSIGN(const auto* kernels, fast::kernels_named(experiment.machine.kernels));
  const fast::KernelScope scope(*kernels);
  return make_model(experiment.model, shape);
}

// A pooled reference trains on everybody's samples at once, so they must all fit.
std::vector<ClientData> all_here(const std::vector<ClientData>& clients) {
  std::vector<ClientData> out;
  for (const auto& client : clients) {
    const auto opened = client.open();
    if (!opened.ok()) throw std::runtime_error(message(opened.status()));
    out.push_back(**opened);
  }
  return out;
}

}  // namespace

ServerMemory server_memory(const AnyMethod& method, const Setup& setup, double available) {
  ServerMemory out{method.server_bytes(setup), setup.clients, 0, available};
  const double each = out.bytes / static_cast<double>(std::max<int64_t>(setup.clients, 1));
  constexpr double kMost = 1e9;
  out.most = static_cast<int64_t>(each > 0 ? std::min(available / each, kMost) : kMost);
  // A method that compares clients may refuse fewer.
  auto other = setup;
  const auto takes = [&](int64_t clients) {
    other.clients = clients;
    return method.check(other).ok();
  };
  if (out.most <= setup.clients || takes(out.most)) return out;
  int64_t enough = setup.clients;
  while (out.most - enough > 1) {
    const int64_t middle = std::midpoint(enough, out.most);
    (takes(middle) ? enough : out.most) = middle;
  }
  out.most = enough;
  return out;
}

Status check_server_memory(const std::string& method, const ServerMemory& memory) {
  if (memory.bytes <= memory.available) return ok();
  return fail(Error::kInvalid,
              "{}: the server would need {} for {} clients, and of the {} of memory that are "
              "available {} clients are the most; use fewer clients, a smaller model or another "
              "method",
              method, human_bytes(memory.bytes), memory.clients, human_bytes(memory.available),
              memory.most);
}

TrainOptions resolved_train(const Experiment& experiment, const Federation& federation) {
  return resolved(experiment.train, federation.multi_label_loss);
}

Result<Session> make_session(const Experiment& experiment, const Federation& federation,
                             std::vector<std::string>* notes) {
  for (const auto& client : federation.clients)
    TESSERA_RETURN_IF_ERROR(check_guards(experiment.guard, client));
  return make_session(experiment,
                      SessionFacts{.sample_shape = federation.sample_shape,
                                   .classes = federation.classes,
                                   .multi_label_loss = federation.multi_label_loss,
                                   .clients = std::ssize(federation.clients),
                                   .newcomers = std::ssize(federation.newcomers),
                                   .commons = &federation.commons},
                      notes);
}

Result<Session> make_session(const Experiment& experiment, const SessionFacts& facts,
                             std::vector<std::string>* notes) {
  TESSERA_ASSIGN(auto model, network_of(experiment, {facts.sample_shape, facts.classes}));
  if (!experiment.model.start.empty()) {
    TESSERA_ASSIGN(auto note, warm_start(*model, experiment.model.start));
    if (notes) notes->push_back(std::move(note));
  }
  TESSERA_RETURN_IF_ERROR(check_guards(experiment.guard, *model, experiment.model.name));
  const auto train = guarded_train(resolved(experiment.train, facts.multi_label_loss),
                                   experiment.guard, static_cast<uint64_t>(experiment.run.seed));
  TESSERA_RETURN_IF_ERROR(
      check_guards(experiment.guard.answers, experiment.method, train, facts.classes));
  auto method = experiment.draft->build(train);
  const GuardedRun guarded{.parts = method->parts(),
                           .sums = method->sum_will_do(),
                           .clients = facts.clients,
                           .rate = experiment.federation.participation};
  Session session(
      {.model = std::move(model),
       .method = std::move(method),
       .info = experiment.method,
       .seed = static_cast<uint64_t>(experiment.run.seed),
       .loss = train.loss_kind(),
       .clients = facts.clients,
       .newcomers = facts.newcomers,
       .rounds = experiment.run.rounds,
       .participation = experiment.federation.participation,
       .guard = experiment.method.pooled ? Guard() : Guard(experiment.guard, guarded),
       .voters = experiment.guard.answers.vote ? experiment.guard.answers.vote->parts : 0,
       .transforms = train.transform ? train.transform->log : nullptr});
  if (session.newcomers() > 0 && session.method().exchanges() > 0 && session.guard().promises())
    return fail(
        Error::kInvalid,
        "guards 'dp', 'dp-sgd' and 'secure-aggregation' do not go with newcomers of {}: what "
        "they send to be known by the server would travel bare; remove the guard or the "
        "newcomers, or choose a method that meets newcomers without an upload",
        session.info().name);
  const auto setup = session.server_setup(0, facts.commons);
  TESSERA_RETURN_IF_ERROR(session.method().check(setup));
  TESSERA_RETURN_IF_ERROR(check_server_memory(
      session.info().name,
      server_memory(session.method(), setup, static_cast<double>(available_memory()))));
  const auto& options = experiment.federation;
  const int64_t cohort =
      session.info().pooled
          ? 1
          : std::ssize(cohort_of(session.seed(), 1, session.clients(), options.participation));
  if (options.min_replies > cohort)
    return fail(Error::kInvalid,
                "federation.min_replies = {} can never be reached: a round has {} clients",
                options.min_replies, cohort);
  if (session.guard().hides() && cohort < static_cast<int64_t>(kLeastSumClients))
    return fail(Error::kInvalid,
                "guard 'secure-aggregation' needs at least {} clients in a round, which has {}; "
                "raise federation.participation, or remove it",
                kLeastSumClients, cohort);
  return session;
}

Simulation::Simulation(Session session, const Federation& federation,
                       const FederationOptions& options, SimulationOptions simulation)
    : session_(std::move(session)),
      host_(session_, store_, hosted(federation, simulation), simulation.sink),
      engine_(host_, simulation.engine),
      reach_(simulation.reach ? simulation.reach(engine_) : nullptr),
      driver_(session_, options, reach_ ? *reach_ : engine_, &federation.commons) {
  host_.limit_kept(simulation.states.bytes);
  store_.limit(std::move(simulation.states));
}

std::vector<HostedClient> Simulation::hosted(const Federation& federation,
                                             const SimulationOptions& simulation) {
  if (session_.info().pooled) pooled_ = pooled(all_here(federation.clients));
  std::vector<HostedClient> out;
  ClientId next = 0;
  for (const auto* group : {&federation.clients, &federation.newcomers}) {
    for (const auto& data : *group) {
      const ClientId id = next++;
      if (simulation.hosts && !simulation.hosts(id)) continue;
      const auto& trains_on = session_.info().pooled && id == 0 ? pooled_ : data;
      const bool observed = simulation.observe && !session_.is_newcomer(id);
      out.push_back({id, &data, observed ? &simulation.observe(trains_on) : &trains_on});
    }
  }
  return out;
}

}  // namespace tessera

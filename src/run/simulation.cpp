#include "run/simulation.hpp"

#include "base/key.hpp"
#include "run/pooled.hpp"
#include "run/warm_start.hpp"

namespace tessera {

namespace {

TrainOptions resolved(TrainOptions train, bool multi_label_loss) {
  if (train.loss == "auto") train.loss = multi_label_loss ? "multilabel" : "ce";
  return train;
}

}  // namespace

TrainOptions resolved_train(const Experiment& experiment, const Federation& federation) {
  return resolved(experiment.train, federation.multi_label_loss);
}

Result<Session> make_session(const Experiment& experiment, const Federation& federation,
                             std::vector<std::string>* notes) {
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
  TESSERA_ASSIGN(auto model, make_model(experiment.model, {facts.sample_shape, facts.classes}));
  if (!experiment.model.start.empty()) {
    TESSERA_ASSIGN(auto note, warm_start(*model, experiment.model.start));
    if (notes) notes->push_back(std::move(note));
  }
  const auto train = resolved(experiment.train, facts.multi_label_loss);
  Session session({.model = std::move(model),
                   .method = experiment.draft->build(train),
                   .info = experiment.method,
                   .seed = static_cast<uint64_t>(experiment.run.seed),
                   .loss = train.loss_kind(),
                   .clients = facts.clients,
                   .newcomers = facts.newcomers,
                   .rounds = experiment.run.rounds,
                   .participation = experiment.federation.participation,
                   .guard = experiment.method.pooled ? Guard() : Guard(experiment.guard)});
  TESSERA_RETURN_IF_ERROR(session.method().check(session.server_setup(0, facts.commons)));
  const auto& options = experiment.federation;
  const int64_t cohort =
      session.info().pooled
          ? 1
          : std::ssize(cohort_of(session.seed(), 1, session.clients(), options.participation));
  if (options.min_replies > cohort)
    return fail(Error::kInvalid,
                "federation.min_replies = {} can never be reached: a round has {} clients",
                options.min_replies, cohort);
  return session;
}

Simulation::Simulation(Session session, const Federation& federation,
                       const FederationOptions& options, SimulationOptions simulation)
    : session_(std::move(session)),
      host_(session_, store_, hosted(federation, simulation), simulation.sink),
      engine_(host_, simulation.engine),
      driver_(session_, options, engine_, &federation.commons) {}

std::vector<HostedClient> Simulation::hosted(const Federation& federation,
                                             const SimulationOptions& simulation) {
  if (session_.info().pooled) pooled_ = pooled(federation.clients);
  std::vector<HostedClient> out;
  for (const auto* group : {&federation.clients, &federation.newcomers}) {
    for (const auto& data : *group) {
      const auto id = static_cast<ClientId>(out.size());
      const auto& trains_on = session_.info().pooled && id == 0 ? pooled_ : data;
      const bool observed = simulation.observe && !session_.is_newcomer(id);
      out.push_back({id, &data, observed ? &simulation.observe(trains_on) : &trains_on});
    }
  }
  return out;
}

}  // namespace tessera

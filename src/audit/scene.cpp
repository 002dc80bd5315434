#include "audit/scene.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/key.hpp"
#include "base/text.hpp"
#include "guard/answers.hpp"
#include "guard/change.hpp"
#include "io/file.hpp"
#include "method/gan_round.hpp"
#include "run/checkpoint.hpp"
#include "run/exposed.hpp"
#include "run/round_loop.hpp"

namespace tessera {
namespace {

/// Secure aggregation hides uploads from the server, and what it leaves is a sum: the audit sums by
/// itself what the same run without it sends.
GuardOptions visible(GuardOptions guards) {
  GuardOptions::each(guards, [](const std::string& name, auto& guard) {
    if (name == "secure-aggregation") guard.reset();
  });
  return guards;
}

constexpr size_t kMaxConfigBytes = size_t{1} << 20;

/// In one step: the change is the gradient times the rate.
Experiment with_one_step(Experiment experiment, int64_t samples) {
  experiment.train.epochs = 1, experiment.train.batch = samples;
  return experiment;
}

Tensor only_like(const TensorDict& down, int64_t numel) {
  Tensor out;
  int found = 0;
  for (const auto& [name, tensor] : down)
    if (tensor.is_floating_point() && tensor.numel() == numel) out = tensor, ++found;
  return found == 1 ? out : Tensor();
}

}  // namespace

Scene::Scene(Experiment experiment, Federation federation)
    : experiment_(std::move(experiment)), federation_(std::move(federation)) {}

Result<std::unique_ptr<Scene>> Scene::of_experiment(Experiment experiment, SceneOptions options) {
  if (experiment.method.pooled)
    return fail(Error::kInvalid,
                "{} trains on everybody's data in one place: there is nothing to attack; choose a "
                "method that keeps data apart",
                experiment.method.name);
  TESSERA_ASSIGN(experiment.guard.answers,
                 parse_answer_guards(options.answers, experiment.guard.answers));
  const auto sights = exposed(experiment);
  const bool hides =
      tessera::hides_uploads(needs_sums_only(experiment), active_guards(experiment.guard));
  experiment.guard = visible(experiment.guard);
  TESSERA_ASSIGN(auto federation,
                 load_federation(experiment.data, derive(static_cast<uint64_t>(experiment.run.seed),
                                                         Purpose::kPartition)));
  TESSERA_RETURN_IF_ERROR(open_all(federation));
  std::unique_ptr<Scene> out(new Scene(std::move(experiment), std::move(federation)));
  out->sights_ = sights, out->hides_uploads_ = hides;
  TESSERA_RETURN_IF_ERROR(out->build(options));
  TESSERA_RETURN_IF_ERROR(out->simulation_->driver().begin());
  return out;
}

Result<std::unique_ptr<Scene>> Scene::of_run(const std::string& dir, SceneOptions options) {
  const auto config = dir + "/config.toml";
  TESSERA_ASSIGN(const auto text, read_file(config, kMaxConfigBytes));
  TESSERA_ASSIGN(auto experiment,
                 parse_foreign_experiment(std::string(text_of(text)), config, options.network, {}));
  TESSERA_ASSIGN(auto out, of_experiment(std::move(experiment), options));
  TESSERA_ASSIGN(auto opened, CheckpointFile::open(dir));
  const auto& checkpoint = opened.second;
  if (!checkpoint.facts.ranks.empty())
    return fail(Error::kInvalid,
                "{}: was played on several ranks, which keep their clients' states; attack the "
                "experiment's file instead",
                dir);
  TESSERA_RETURN_IF_ERROR(
      same_data(dir, checkpoint.facts.data_digest, out->federation_.data_digest));
  TESSERA_RETURN_IF_ERROR(at_place(out->simulation_->driver().restore(checkpoint.server), dir));
  for (const auto& [client, state] : checkpoint.clients)
    TESSERA_RETURN_IF_ERROR(at_place(out->simulation_->host().restore(client, state), dir));
  out->round_ = checkpoint.facts.round;
  return out;
}

Status Scene::build(SceneOptions options) {
  TESSERA_ASSIGN(auto session, make_session(experiment_, federation_));
  train_ = resolved_train(experiment_, federation_);
  SimulationOptions simulation;
  simulation.engine = {.threads = options.threads, .stop = options.stop};
  simulation_ = std::make_unique<Simulation>(std::move(session), federation_,
                                             experiment_.federation, std::move(simulation));
  return simulation_->driver().meet_clients();
}

Status Scene::play() {
  TESSERA_RETURN_IF_ERROR(simulation_->driver().play(round_ + 1).status());
  ++round_;
  return ok();
}

void Scene::plant(ClientId client, const Examples& more) {
  auto& data = federation_.clients[static_cast<size_t>(client)];
  auto pool = std::make_shared<Pool>(*data.pool);
  // A pool of its own rows: the common one may be large.
  std::vector<Tensor> x, y;
  int64_t next = 0;
  for (auto* rows : {&data.train, &data.val, &data.test, &data.support}) {
    const auto at = at::tensor(*rows, at::kLong);
    x.push_back(pool->x.index_select(0, at)), y.push_back(pool->y.index_select(0, at));
    for (int64_t& row : *rows) row = next++;
  }
  x.push_back(more.x.to(pool->x.scalar_type())), y.push_back(more.y);
  for (int64_t i = 0; i < more.size(); ++i) data.train.push_back(next++);
  pool->x = at::cat(x), pool->y = at::cat(y);
  data.pool = std::move(pool);
}

Weights Scene::start() const {
  return session().model().init(derive(session().seed(), Purpose::kInit));
}

TensorDict Scene::state_of(ClientId client) const {
  if (auto state = simulation_->store().get(client)) {
    take_memory(*state);
    return *std::move(state);
  }
  const Setup setup = session().client_setup(0);
  const Local local{{session().model(), federation_.client(client), 0, 0}, setup, client, false};
  return session().method().init_client(local);
}

TensorDict Scene::download(ClientId client, Why why) const {
  const auto setup = session().server_setup(round_ + 1, &federation_.commons);
  const auto state = session().method().restore_server(
      simulation_->driver().server(), session().server_setup(0, &federation_.commons));
  auto asked = cohort_of(session().seed(), round_ + 1, session().clients(),
                         experiment_.federation.participation);
  if (!std::binary_search(asked.begin(), asked.end(), client)) {
    asked.push_back(client);
    std::sort(asked.begin(), asked.end());
  }
  std::vector<Ask<TensorDict>> asks;
  for (const ClientId id : asked) asks.push_back({id, why});
  TensorDict out;
  session().method().broadcast(*state, asks, setup, [&](const auto& ask, TensorDict down) {
    if (ask.client == client) out = std::move(down);
  });
  return out;
}

Result<ClientExchange> Scene::exchange(ClientId client, const VictimWork& work) const {
  return answer(client, work, download(client, Why::kTrain));
}

Result<ClientExchange> Scene::answer(ClientId client, const VictimWork& work,
                                     TensorDict down) const {
  ClientData few = federation_.client(client);
  std::optional<Session> other;
  if (work.samples > 0) {
    const auto begin = std::min(few.train.size(), static_cast<size_t>(work.first));
    few.train.erase(few.train.begin(), few.train.begin() + static_cast<std::ptrdiff_t>(begin));
    few.train.resize(std::min(few.train.size(), static_cast<size_t>(work.samples)));
    // Samples that a client adapts on would make it train on more than is looked for.
    few.support.clear();
    TESSERA_ASSIGN(auto session,
                   make_session(with_one_step(experiment_, work.samples), federation_));
    other.emplace(std::move(session));
  }
  const Session& here = other ? *other : session();
  TESSERA_RETURN_IF_ERROR(here.method().check(few));
  ClientStore store;
  ClientHost host(here, store, {{client, &federation_.client(client), &few}});
  if (const auto state = simulation_->store().get(client))
    TESSERA_RETURN_IF_ERROR(store.restore(client, *state));
  const int64_t round = round_ + 1;
  const auto reply = host.handle(
      {.client = client, .kind = TaskKind::kTrain, .round = round, .attempt = 1, .down = down});
  TESSERA_RETURN_IF_ERROR(reply.status);
  const auto setup = here.server_setup(round, &federation_.commons);
  const auto server = here.method().restore_server(simulation_->driver().server(),
                                                   here.server_setup(0, &federation_.commons));
  const auto expected = here.method().expected(*server, Why::kTrain, setup);
  auto opened = here.guard().open(reply.up, expected, here.guard().references(down, expected));
  TESSERA_RETURN_IF_ERROR(opened.up.status());
  return ClientExchange{client, round, std::move(down), *std::move(opened.up)};
}

void Scene::with_personal(ClientId client, View view,
                          const std::function<void(const Personal&)>& use) const {
  const auto& method = session().method();
  const auto down = download(client, Why::kEvaluate);
  const Setup setup = session().client_setup(round_ + 1);
  Local local{{session().model(), federation_.client(client), round_ + 1,
               derive(session().seed(), Purpose::kLocal, round_ + 1, client)},
              setup,
              client,
              false,
              Why::kEvaluate};
  const auto state = state_of(client);
  if (const auto own = method.personalize(state, down, local, view)) return use(*own);
  local.why = Why::kTrain;
  const auto step = method.local_update(state, down, local);
  use(plain(session().model(), view == View::kPre ? step.before.value() : step.after.value()));
}

std::optional<Tensor> generator_in(const Scene& scene, const TensorDict& message) {
  // What travels is declared, and measured by the conformance suite.
  if (scene.experiment().method.up.find("d_G") == std::string::npos) return std::nullopt;
  if (const auto at = message.find("gan.generator"); at != message.end()) return at->second;
  const auto& model = scene.session().model();
  const auto gan = GanRound::networks(model);
  const int64_t d = model.layout().numel(), d_g = gan.generator.layout().numel();
  for (const auto& [name, tensor] : message)
    if (tensor.numel() == d + d_g + gan.discriminator.layout().numel())
      return tensor.flatten().narrow(0, d, d_g).clone();
  return std::nullopt;
}

Voters Scene::voters(ClientId client) const {
  const Setup setup = session().client_setup(round_ + 1);
  const Local local{{session().model(), federation_.client(client), round_ + 1,
                     derive(session().seed(), Purpose::kLocal, round_ + 1, client)},
                    setup,
                    client,
                    false,
                    Why::kEvaluate};
  return make_voters(session(), state_of(client), download(client, Why::kEvaluate), local);
}

Result<SeenUpload> seen_in(const Scene& scene, const ClientExchange& exchange) {
  const auto& model = scene.session().model();
  const auto& info = scene.experiment().method;
  SeenUpload out{scene.start()};
  if (info.exposure.rest_known)
    scene.with_personal(exchange.client, View::kPre, [&](const Personal& personal) {
      if (personal.weights) out.at = {personal.weights->w.clone(), personal.weights->b.clone()};
    });
  auto after = out.at.w.clone();
  out.change = at::zeros_like(out.at.w);
  out.uploaded = at::zeros({out.at.w.numel()}, at::kBool);
  bool models = true;
  const auto moved = trained_in(exchange.up, exchange.down, *scene.session().method().parts());
  for (const auto& told : info.exposure.server) {
    const auto at = exchange.up.find(told.tensor);
    if (at == exchange.up.end() || told.what == Tells::kStatistics || at->second.numel() == 0)
      continue;
    const auto places = covered(model.layout(), told.covers, at->second.numel() / told.copies);
    const int64_t numel = places.numel();
    if (numel == 0) continue;
    const auto numbers = at->second.flatten().narrow(0, 0, numel).to(at::kFloat);
    Tensor from;
    for (const auto& one : moved)
      if (one.name == told.tensor) from = one.from;
    if (!from.defined()) from = only_like(exchange.down, at->second.numel());
    if (!from.defined())
      return fail(Error::kInvalid,
                  "the server does not know what the client's training began with");
    from = from.flatten().narrow(0, 0, numel).to(at::kFloat);
    const bool is_model = told.what == Tells::kModel;
    models = models && is_model;
    out.gradient = out.gradient || told.what == Tells::kGradient;
    out.at.w.index_copy_(0, places, from);
    after.index_copy_(0, places, is_model ? numbers : from - numbers);
    out.change.index_copy_(0, places, is_model ? from - numbers : numbers);
    out.uploaded.index_fill_(0, places, true);
  }
  if (!out.uploaded.any().item<bool>())
    return fail(Error::kInvalid, "nothing that was trained leaves the client");
  const bool whole = out.uploaded.all().item<bool>();
  out.guessed = !whole && !info.exposure.rest_known;
  // Running statistics as they were sent; where they stay, those of the start are a guess.
  for (const auto& [name, tensor] : exchange.down)
    if ((name == "b" || name.ends_with(".b")) && tensor.numel() == out.at.b.numel())
      out.at.b = tensor.to(at::kFloat);
  if (whole && (models || info.exposure.server.front().what == Tells::kChange))
    out.model = Weights{after, out.at.b};
  return out;
}

}  // namespace tessera

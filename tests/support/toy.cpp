#include "support/toy.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/key.hpp"
#include "io/sha256.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "run/guard_sections.hpp"
#include "tensor/trie_sum.hpp"

namespace tessera::test {
namespace {

constexpr int64_t kFeatures = 6, kClasses = 3;

void set_options(MethodDraft& draft, const ToyOptions& options) {
  for (auto& option : draft.options()) {
    for (const auto& [key, value] : options.numbers) {
      if (key != option.spec.key) continue;
      if (auto* whole = std::get_if<int64_t*>(&option.target))
        **whole = static_cast<int64_t>(value);
      else if (auto* flag = std::get_if<bool*>(&option.target))
        **flag = value != 0;
      else
        **std::get_if<double*>(&option.target) = value;
    }
    for (const auto& [key, value] : options.words)
      if (key == option.spec.key) **std::get_if<std::string*>(&option.target) = value;
  }
}

}  // namespace

Federation toy_federation(int64_t clients, int64_t newcomers, int64_t samples, bool images) {
  Federation out;
  out.set = "toy";
  out.sample_shape = images ? std::vector<int64_t>{1, 28, 28} : std::vector<int64_t>{kFeatures};
  out.classes = kClasses;
  out.class_names = {"a", "b", "c"};
  auto pool = std::make_shared<Pool>();
  const int64_t total = (clients + newcomers) * samples;
  pool->x = at::empty({total, kFeatures}, at::kFloat);
  pool->y = at::empty({total}, at::kLong);
  pool->classes = kClasses;
  pool->pixel_mean = {0.0}, pool->pixel_std = {1.0};  // as if they were pictures
  Rng rng(99);
  auto* x = pool->x.data_ptr<float>();
  auto* y = pool->y.data_ptr<int64_t>();
  for (int64_t i = 0; i < total; ++i) {
    const int64_t client = i / samples, label = static_cast<int64_t>(rng.below(kClasses));
    y[i] = label;
    for (int64_t k = 0; k < kFeatures; ++k) {
      const bool centre = k == (label + client) % kFeatures || k == 3 + label;
      x[i * kFeatures + k] = static_cast<float>((centre ? 1.5 : 0.0) + 0.5 * rng.normal());
    }
  }
  if (images) {
    // Three rows and two columns of fields; the last line of pixels stays dark.
    const auto fields = pool->x.view({total, 3, 1, 2, 1}).expand({total, 3, 9, 2, 14});
    const auto lit = fields.reshape({total, 1, 27, 28});
    pool->x = at::constant_pad_nd(lit, {0, 0, 0, 1}).contiguous();
  }
  for (int64_t c = 0; c < clients + newcomers; ++c) {
    ClientData data;
    data.name = std::to_string(c);
    data.pool = pool;
    // As if the first feature were what the label is made of.
    data.last_label = std::make_shared<const LastLabel>(LastLabel{0, {0.5F, 1.0F}});
    for (int64_t i = c * samples; i < (c + 1) * samples; ++i)
      (i % 5 == 0 ? data.test : i % 5 == 1 ? data.val : data.train).push_back(i);
    out.commons.train.insert(out.commons.train.end(), data.val.begin(), data.val.end());
    (c < clients ? out.clients : out.newcomers).push_back(std::move(data));
  }
  out.commons.pool = pool;
  return out;
}

NapkinModel::NapkinModel()
    : layout_({{"body.weight", {1}, Role::kBody}, {"head.weight", {1}, Role::kHead}}) {}

Weights NapkinModel::init(uint64_t) const { return {at::tensor({0.5F, -0.25F}), at::empty({0})}; }

Output NapkinModel::forward(const Weights& at, const Tensor& x, const Pass&) const {
  return {x.view({-1, 1}) * at.w.view({1, 2}), x, at.b};
}

ClientData napkin_client(std::vector<float> x, std::vector<int64_t> y) {
  auto pool = std::make_shared<Pool>();
  pool->x = at::tensor(x).view({-1, 1});
  pool->y = at::tensor(y, at::kLong);
  pool->classes = 2;
  ClientData out;
  out.pool = pool;
  for (size_t i = 0; i < y.size(); ++i) out.train.push_back(static_cast<int64_t>(i));
  out.test = out.train;
  return out;
}

ToyOptions noisy(const std::string& method) {
  ToyOptions out{.method = method};
  out.train.batch = 7;
  out.train.epochs = 2;
  out.train.lr = 0.05;
  out.train.momentum = 0.9;
  return out;
}

namespace {

std::shared_ptr<const AnyMethod> built_of(const ToyOptions& options) {
  auto draft = find_method(options.method)->draft();
  set_options(*draft, options);
  return draft->build(guarded_train(options.train, options.guard, options.seed));
}

Session session_of(const Toy& toy, const ToyOptions& options) {
  SessionParts out{.model = toy.model,
                   .method = toy.method,
                   .info = toy.info,
                   .seed = options.seed,
                   .loss = Loss::kCrossEntropy,
                   .clients = std::ssize(toy.federation.clients),
                   .newcomers = std::ssize(toy.federation.newcomers),
                   .rounds = options.rounds,
                   .participation = options.federation.participation};
  out.guard = Guard(options.guard, {.parts = toy.method->parts(),
                                    .sums = toy.method->sum_will_do(),
                                    .clients = std::ssize(toy.federation.clients),
                                    .rate = options.federation.participation});
  if (options.guard.answers.vote) out.voters = options.guard.answers.vote->parts;
  return Session(std::move(out));
}

}  // namespace

Toy::Toy(Federation data, std::shared_ptr<const Model> net, const ToyOptions& options)
    : Toy(std::move(data), std::move(net), options, *find_method(options.method),
          built_of(options)) {}

Toy::Toy(Federation data, std::shared_ptr<const Model> net, const ToyOptions& options,
         MethodInfo line, std::shared_ptr<const AnyMethod> built)
    : owned(std::make_unique<Federation>(std::move(data))),
      federation(*owned),
      model(std::move(net)),
      info(std::move(line)),
      method(std::move(built)) {
  simulation = std::make_unique<Simulation>(
      session_of(*this, options), federation, options.federation,
      SimulationOptions{
          .engine = {.threads = options.threads, .through_wire = options.through_wire}});
  session = &simulation->session();
  store = &simulation->store();
  driver = &simulation->driver();
  const auto status = driver->begin();
  if (!status.ok()) throw std::runtime_error(message(status));
}

std::vector<RoundReport> Toy::play(int64_t first, int64_t last) {
  std::vector<RoundReport> out;
  for (int64_t round = first; round <= last; ++round) {
    auto report = driver->play(round);
    EXPECT_TRUE(report.ok()) << message(report.status());
    if (!report.ok()) break;
    for (const auto& problem : report->problems)
      ADD_FAILURE() << "round " << round << ", client " << problem.client << ": " << problem.reason;
    out.push_back(*report);
  }
  return out;
}

EvalReport Toy::evaluate(int64_t round) {
  auto report = driver->evaluate(round);
  EXPECT_TRUE(report.ok()) << message(report.status());
  if (!report.ok()) return {};
  for (const auto& problem : report->problems)
    ADD_FAILURE() << "client " << problem.client << ": " << problem.reason;
  return *std::move(report);
}

const Setup& Toy::setup(int64_t round) const {
  return setups_.emplace_back(session->server_setup(round, &federation.commons));
}

Local Toy::local(ClientId id, int64_t round, uint64_t key, Why why) const {
  const auto at = static_cast<size_t>(id), clients = federation.clients.size();
  const auto& data = at < clients ? federation.clients[at] : federation.newcomers.at(at - clients);
  auto out = local(id, data, round, key);
  out.why = why;
  return out;
}

Local Toy::local(ClientId id, const ClientData& data, int64_t round, uint64_t key) const {
  const auto& here = setups_.emplace_back(session->client_setup(round));
  return {{*model, data, round, key}, here, id, session->is_newcomer(id)};
}

ServerStatePtr Toy::typed(const TensorDict& server) const {
  // A method may change its state in place, and a test its tensors.
  TensorDict copy;
  for (const auto& [name, tensor] : server) copy.emplace(name, tensor.clone());
  return method->restore_server(copy, setup(0));
}

TensorDict Toy::download(const TensorDict& server, ClientId id, Why why,
                         std::vector<ClientId> among, int64_t round) const {
  if (among.empty()) among = {id};
  std::vector<Ask<TensorDict>> asks;
  for (const ClientId one : among) asks.push_back({one, why});
  std::optional<TensorDict> out;
  method->broadcast(*method->restore_server(server, setup(0)), asks, setup(round),
                    [&](const auto& ask, TensorDict down) {
                      if (ask.client == id) out = std::move(down);
                    });
  return out.value();
}

TensorDict Toy::download_guest(const TensorDict& server, const std::optional<TensorDict>& guest,
                               ClientId id, std::vector<ClientId> among, int64_t round) const {
  std::vector<Ask<TensorDict>> asks;
  for (const ClientId one : among) asks.push_back({one, Why::kEvaluate});
  asks.push_back({id, Why::kJoin, guest ? &*guest : nullptr});
  TensorDict out;
  method->broadcast(*method->restore_server(server, setup(0)), asks, setup(round),
                    [&](const auto&, TensorDict down) { out = std::move(down); });
  return out;
}

TensorDict Toy::learn(const TensorDict& server, const std::optional<TensorDict>& guest,
                      const TensorDict& up, int64_t round) const {
  return method->learn(*typed(server), guest ? &*guest : nullptr, up, setup(round));
}

TensorDict Toy::aggregate(const TensorDict& server, std::vector<Received<TensorDict>> uploads,
                          int64_t round) const {
  Gathered gathered;
  for (auto& [client, up] : uploads)
    gathered.clients.push_back(client), gathered.uploads.push_back(std::move(up));
  if (method->sum_will_do() && !gathered.uploads.empty()) {
    TrieSum sum(gathered.clients, {gathered.uploads.front(), method->parts()});
    for (size_t i = 0; i < gathered.clients.size(); ++i)
      sum.add(gathered.clients[i], std::move(gathered.uploads[i]));
    gathered.uploads = {sum.result().value()};
  }
  return method->aggregate(*typed(server), std::move(gathered), setup(round))->tensors();
}

std::vector<Exhibit> Toy::exhibits(const TensorDict& server, const Evaluated& evaluated,
                                   int64_t round) const {
  return method->exhibits(*typed(server), evaluated, setup(round));
}

std::optional<Weights> Toy::global(const TensorDict& server) const {
  return method->global(*typed(server), setup(1));
}

TensorDict Toy::fresh(ClientId id) const {
  const auto at = static_cast<size_t>(id), everybody = federation.clients.size();
  // Ids beyond the federation are served like anybody who never took part.
  const auto& data = at < everybody + federation.newcomers.size() ? local(id, 0, 0).data
                                                                  : federation.clients.front();
  return method->init_client(local(id, data, 0, 0));
}

TensorDict Toy::state(ClientId id) const {
  if (auto state = store->get(id)) return *std::move(state);
  return fresh(id);
}

Personal Toy::personal(const TensorDict& client, const TensorDict& down, const Local& local,
                       View view) const {
  auto here = local;
  here.why = Why::kEvaluate;
  if (auto own = method->personalize(client, down, here, view)) return *std::move(own);
  if (!local.newcomer) here.why = Why::kTrain;
  const auto step = method->local_update(client, down, here);
  auto out = plain(*model, view == View::kPre ? step.before.value() : step.after.value());
  if (view == View::kPost) out.notes = step.notes;
  return out;
}

Toy make_toy(const ToyOptions& options, int64_t clients, int64_t newcomers) {
  for (const char* name : {"mlp100", "lenet", "vit-s28", "lenet16-bn"}) {
    const bool images = name != std::string("mlp100");
    auto data = toy_federation(clients, newcomers, 60, images);
    auto model = make_model(name, {data.sample_shape, kClasses});
    EXPECT_TRUE(model.ok()) << message(model.status());
    const Session session({.model = *std::move(model),
                           .method = built_of(options),
                           .seed = options.seed,
                           .clients = clients,
                           .newcomers = newcomers,
                           .rounds = options.rounds,
                           .participation = options.federation.participation});
    if (session.method().check(session.server_setup(0, &data.commons)).ok())
      return Toy(std::move(data), *make_model(name, {data.sample_shape, kClasses}), options);
  }
  if (options.train.momentum > 0) {  // a method may refuse it, whatever the model is
    auto plain = options;
    plain.train.momentum = 0;
    return make_toy(plain, clients, newcomers);
  }
  throw std::runtime_error("no toy model fits " + options.method);
}

std::string fingerprint(const TensorDict& dict) { return sha256_hex(encode(dict)); }

std::string fingerprint(const Toy& toy) {
  std::string out = fingerprint(toy.server());
  for (const ClientId id : toy.store->ids())
    out += fmt::format(" {}:{}", id, fingerprint(*toy.store->get(id)));
  return out;
}

}  // namespace tessera::test

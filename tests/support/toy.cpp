#include "support/toy.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/key.hpp"
#include "io/sha256.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "run/pooled.hpp"

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

Toy::Toy(Federation data, std::shared_ptr<const Model> net, const ToyOptions& options)
    : federation(std::move(data)), model(std::move(net)) {
  info = *find_method(options.method);
  auto draft = info.draft();
  set_options(*draft, options);
  method = draft->build(options.train);
  setup = std::make_unique<Setup>(
      Setup{*model, static_cast<int64_t>(federation.clients.size()), options.rounds,
            options.federation.participation, derive(options.seed, Purpose::kInit),
            static_cast<int64_t>(federation.newcomers.size()), federation.commons.train_size()});
  context = std::make_unique<ClientContext>(
      ClientContext{*method, info.name, *setup, options.seed, Loss::kCrossEntropy});
  if (info.pooled) everybody = pooled(federation.clients);
  std::vector<ClientRuntime> clients;
  for (const auto* group : {&federation.clients, &federation.newcomers})
    for (const auto& one : *group)
      clients.emplace_back(*context, static_cast<ClientId>(clients.size()), one,
                           info.pooled && clients.empty() ? everybody : one,
                           group == &federation.newcomers);
  engine = std::make_unique<LocalEngine>(
      std::move(clients),
      LocalEngineOptions{.threads = options.threads, .through_wire = options.through_wire});
  driver =
      std::make_unique<Driver>(DriverSetup{*method, info, *setup, options.seed, options.federation,
                                           static_cast<int64_t>(federation.newcomers.size()),
                                           options.threads, &federation.commons},
                               *engine);
}

std::vector<RoundReport> Toy::play(int64_t first, int64_t last) {
  std::vector<RoundReport> out;
  for (int64_t round = first; round <= last; ++round) {
    auto report = driver->play(round);
    EXPECT_TRUE(report.ok()) << message(report.status());
    if (!report.ok()) break;
    out.push_back(*report);
  }
  return out;
}

EvalReport Toy::evaluate(int64_t round) {
  auto report = driver->evaluate(round, nullptr);
  EXPECT_TRUE(report.ok()) << message(report.status());
  return report.ok() ? *report : EvalReport{};
}

Toy make_toy(const ToyOptions& options, int64_t clients, int64_t newcomers) {
  for (const char* name : {"mlp100", "lenet", "vit-s28", "lenet16-bn"}) {
    const bool images = name != std::string("mlp100");
    auto data = toy_federation(clients, newcomers, 60, images);
    auto model = make_model(name, {data.sample_shape, kClasses});
    EXPECT_TRUE(model.ok()) << message(model.status());
    auto draft = find_method(options.method)->draft();
    set_options(*draft, options);
    const Setup setup{**model,
                      clients,
                      options.rounds,
                      options.federation.participation,
                      derive(options.seed, Purpose::kInit),
                      newcomers,
                      data.commons.train_size()};
    if (draft->build(options.train)->check(setup).ok())
      return Toy(std::move(data), *std::move(model), options);
  }
  throw std::runtime_error("no toy model fits " + options.method);
}

std::string fingerprint(const TensorDict& dict) { return sha256_hex(encode(dict)); }

std::string fingerprint(const Toy& toy) {
  std::string out = fingerprint(toy.driver->server());
  for (const auto& [id, state] : toy.engine->states())
    out += fmt::format(" {}:{}", id, fingerprint(state));
  return out;
}

}  // namespace tessera::test

// pFedHT's server against its round in the small preset: five clients of vit-s, 300 images each,
// three passes in batches of 64; thread CPU time of both, in turn.

#include <ATen/ATen.h>

#include "measure.hpp"
#include "method/any_method.hpp"

namespace tessera::bench {
namespace {

constexpr int64_t kMembers = 20, kCohort = 5, kSamples = 300;

void server_share(benchmark::State& state) {
  const auto model = *make_model("vit-s", {{3, 32, 32}, 10});
  const auto method = find_method("pfedht")->draft()->build(
      {.epochs = 3, .batch = 64, .lr = 0.01, .momentum = 0.9, .weight_decay = 1e-5});
  const Setup setup{*model, kMembers, 1, 0.25, 1, 0, 1};
  auto pool = std::make_shared<Pool>();
  const auto generator = at::detail::createCPUGenerator(1);
  pool->x = at::randn({kSamples, 3, 32, 32}, generator, at::kFloat);
  pool->y = at::randint(10, {kSamples}, generator, at::kLong);
  pool->classes = 10;
  ClientData data;
  data.pool = pool;
  for (int64_t i = 0; i < kSamples; ++i) data.train.push_back(i);

  auto server = method->init_server(setup);
  const Local local{{*model, data, 1, 42}, setup, 0};
  const TensorDict client = method->init_client(local);
  std::vector<Ask<TensorDict>> asks;
  for (ClientId id = 0; id < kCohort; ++id) asks.push_back({id, Why::kTrain});
  Gathered gathered;
  // One client's work stands for each of the cohort; the server generates for all and learns of
  // all.
  const auto train = [&] {
    TensorDict up;
    method->broadcast(*server, std::span(asks).first(1), setup, [&](const auto&, TensorDict down) {
      up = method->local_update(client, down, local).upload;
    });
    gathered = {};
    for (ClientId id = 0; id < kCohort; ++id)
      gathered.clients.push_back(id), gathered.uploads.push_back(up);
  };
  const auto serve = [&] {
    method->broadcast(*server, asks, setup,
                      [](const auto&, TensorDict down) { benchmark::DoNotOptimize(down); });
    server = method->aggregate(*server, gathered, setup);
  };
  train();
  const auto time = paired(state, serve, train);
  const double share = time.work / (time.work + static_cast<double>(kCohort) * time.yardstick);
  state.counters["share"] = share;
  summarise("pFedHT on vit-s: server's share of a round of 5 clients", 100 * share, "%", 10);
}

}  // namespace

void register_hypernet() { add("server/pfedht/vit-s", server_share); }

}  // namespace tessera::bench

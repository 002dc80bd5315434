// FedHAM: a step of attention (mix 18 models, gradient of the network, gradient of Theta, Adam)
// against a plain training step on the same batches. Stacking the models happens once a round.

#include <ATen/ATen.h>

#include <stdexcept>

#include "measure.hpp"
#include "method/fedham/ham_round.hpp"

namespace tessera::bench {
namespace {

constexpr int64_t kPeers = 18, kImages = 96;

ClientData images() {
  auto pool = std::make_shared<Pool>();
  const auto generator = at::detail::createCPUGenerator(1);
  pool->x = at::randn({kImages, 1, 28, 28}, generator, at::kFloat);
  pool->y = at::randint(10, {kImages}, generator, at::kLong);
  pool->classes = 10;
  ClientData out;
  out.pool = pool;
  for (int64_t i = 0; i < kImages; ++i) out.train.push_back(i);
  return out;
}

void theta_step(benchmark::State& state, bool by_block) {
  const auto model = make_model("alex28-s", {{1, 28, 28}, 10});
  if (!model.ok()) throw std::runtime_error(message(model.status()));
  std::vector<Weights> others;
  for (uint64_t i = 1; i < kPeers; ++i) others.push_back((*model)->init(i));
  const auto own = (*model)->init(0);
  const HamTraining ham{.shape = {.by_block = by_block}, .theta_epochs = 1};
  const HamMixer mixer(**model, ham.shape, own, others, (*model)->init(100));
  const auto theta = ham_start((*model)->layout(), ham.shape, 1);
  const auto data = images();
  const Site site{**model, data, 1, 1};
  const TrainOptions train;  // batches of 32: three steps
  const auto time = paired(
      state,
      [&] { benchmark::DoNotOptimize(learn_theta(mixer, theta, site, Part::kTrain, train, ham)); },
      [&] { benchmark::DoNotOptimize(local_sgd(own, site, train)); });
  const double ratio = time.work / time.yardstick;
  state.counters["of_plain"] = ratio;
  summarise(by_block ? "FedHAM attention step by block, 18 clients of alex28-s"
                     : "FedHAM attention step, 18 clients of alex28-s",
            ratio, "plain steps", by_block ? 0 : 1.3);
}

}  // namespace

void register_ham() {
  add("ham/theta step/model", [](benchmark::State& state) { theta_step(state, false); });
  add("ham/theta step/block", [](benchmark::State& state) { theta_step(state, true); });
}

}  // namespace tessera::bench

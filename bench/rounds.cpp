// A FedAvg round of 20 clients on one thread and on two, in turn; wall time, since that is what
// threads buy. The clients hold equal amounts of random images: nothing but the engine can wait.

#include <ATen/ATen.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/key.hpp"
#include "engine/local/local_engine.hpp"
#include "measure.hpp"
#include "run/driver.hpp"

namespace tessera::bench {
namespace {

constexpr int64_t kClients = 20, kSamples = 60;

// A driver with everything it borrows.
class Round {
 public:
  Round(const Model& model, int threads)
      : info_(*find_method("fedavg")),
        method_(info_.draft()->build(TrainOptions{.batch = 10})),
        setup_{model, kClients, 1, 1.0, 1},
        context_{*method_, info_.name, setup_, 1, Loss::kCrossEntropy} {
    auto pool = std::make_shared<Pool>();
    const auto generator = at::detail::createCPUGenerator(1);
    pool->x = at::randn({kClients * kSamples, 1, 28, 28}, generator, at::kFloat);
    pool->y = at::randint(10, {kClients * kSamples}, generator, at::kLong);
    pool->classes = 10;
    data_.resize(kClients);
    std::vector<ClientRuntime> clients;
    for (int64_t id = 0; id < kClients; ++id) {
      auto& data = data_[static_cast<size_t>(id)];
      data.pool = pool;
      for (int64_t i = 0; i < kSamples; ++i) data.train.push_back(id * kSamples + i);
      clients.emplace_back(context_, id, data, data, false);
    }
    engine_ =
        std::make_unique<LocalEngine>(std::move(clients), LocalEngineOptions{.threads = threads});
    driver_ =
        std::make_unique<Driver>(DriverSetup{*method_, info_, setup_, 1, {}, 0, threads}, *engine_);
  }

  double seconds() {
    const double start = wall_seconds();
    benchmark::DoNotOptimize(driver_->play(++round_));
    return wall_seconds() - start;
  }

 private:
  MethodInfo info_;
  std::unique_ptr<AnyMethod> method_;
  Setup setup_;
  ClientContext context_;
  std::vector<ClientData> data_;
  std::unique_ptr<LocalEngine> engine_;
  std::unique_ptr<Driver> driver_;
  int64_t round_ = 0;
};

void scaling(benchmark::State& state) {
  const auto model = *make_model("facnn", {{1, 28, 28}, 10});
  Round one(*model, 1), two(*model, 2);
  one.seconds(), two.seconds();  // arenas grow once
  std::vector<double> ratios;
  for (auto _ : state) {
    const double single = one.seconds(), pair = two.seconds();
    state.SetIterationTime(pair);
    ratios.push_back(single / pair);
  }
  std::sort(ratios.begin(), ratios.end());
  const double median = ratios[ratios.size() / 2];
  state.counters["speedup"] = median;
  summarise("FedAvg round, 20 clients of facnn: 1 thread / 2 threads", median, "x", 1.85);
}

}  // namespace

void register_rounds() { add("round/fedavg/2-threads", scaling); }

}  // namespace tessera::bench

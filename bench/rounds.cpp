// Rounds of 20 clients, wall time: on one thread and on two, and with an evaluation after each. The
// clients hold equal amounts of random images: nothing but the engine can wait.

#include <ATen/ATen.h>

#include <algorithm>

#include "base/clock.hpp"
#include "measure.hpp"
#include "run/simulation.hpp"

namespace tessera::bench {
namespace {

// About a tenth for validation and a fifth for the test, as the examples have it.
constexpr int64_t kClients = 20, kTrain = 60, kVal = 6, kTest = 14;

Federation random_images() {
  constexpr int64_t kEach = kTrain + kVal + kTest;
  auto pool = std::make_shared<Pool>();
  const auto generator = at::detail::createCPUGenerator(1);
  pool->x = at::randn({kClients * kEach, 1, 28, 28}, generator, at::kFloat);
  pool->y = at::randint(10, {kClients * kEach}, generator, at::kLong);
  pool->classes = 10;
  Federation out;
  out.clients.resize(kClients);
  int64_t row = 0;
  for (auto& data : out.clients) {
    data.pool = pool;
    for (auto* part : {&data.train, &data.val, &data.test})
      for (int64_t i = 0; i < (part == &data.train ? kTrain
                               : part == &data.val ? kVal
                                                   : kTest);
           ++i)
        part->push_back(row++);
  }
  return out;
}

class Rounds {
 public:
  Rounds(const std::string& method, int threads, bool evaluates)
      : federation_(random_images()),
        simulation_(session(method), federation_, FederationOptions{},
                    {.engine = {.threads = threads}}),
        evaluates_(evaluates) {
    if (!simulation_.driver().begin().ok()) throw std::runtime_error("cannot begin");
  }

  double seconds() {
    const double start = wall_seconds();
    ++round_;
    benchmark::DoNotOptimize(simulation_.driver().play(round_));
    if (evaluates_) benchmark::DoNotOptimize(simulation_.driver().evaluate(round_));
    return wall_seconds() - start;
  }

 private:
  static Session session(const std::string& method) {
    const auto info = *find_method(method);
    return Session({.model = *make_model("facnn", {{1, 28, 28}, 10}),
                    .method = info.draft()->build(TrainOptions{.batch = 10}),
                    .info = info,
                    .seed = 1,
                    .clients = kClients,
                    .rounds = 1'000'000});
  }

  Federation federation_;
  Simulation simulation_;
  bool evaluates_;
  int64_t round_ = 0;
};

void scaling(benchmark::State& state) {
  Rounds one("fedavg", 1, false), two("fedavg", 2, false);
  one.seconds(), two.seconds();  // arenas grow once
  std::vector<double> ratios;
  for (auto _ : state) {
    const double single = one.seconds(), pair = two.seconds();
    state.SetIterationTime(pair);
    ratios.push_back(single / pair);
  }
  state.counters["speedup"] = median(ratios);
  summarise("FedAvg round, 20 clients of facnn: 1 thread / 2 threads", median(ratios), "x", 1.85);
}

void evaluation(benchmark::State& state, const std::string& method) {
  Rounds alone(method, 1, false), watched(method, 1, true);
  alone.seconds(), watched.seconds();
  std::vector<double> ratios;
  for (auto _ : state) {
    const double training = alone.seconds(), both = watched.seconds();
    state.SetIterationTime(both);
    ratios.push_back(both / training);
  }
  state.counters["cost"] = median(ratios);
  summarise(method + ", evaluated every round / training alone (at most 1.3)", median(ratios), "x",
            0);
}

}  // namespace

void register_rounds() {
  add("round/fedavg/2-threads", scaling);
  for (const char* method : {"fedavg", "fedper"})
    add(std::string("round/") + method + "/evaluated",
        [method](benchmark::State& state) { evaluation(state, method); });
}

}  // namespace tessera::bench

// Rounds of 20 clients, wall time: on one thread and on two, and with an evaluation after each. The
// clients hold equal amounts of random images: nothing but the engine can wait.

#include "measure/rounds.hpp"

#include "measure.hpp"

namespace tessera::bench {
namespace {

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

// Every model of the table: a step by autograd, a step by hand, evaluation.
#include <fmt/format.h>

#include "measure.hpp"
#include "measure/trial.hpp"

namespace tessera::bench {
namespace {

double of_sgemm(benchmark::State& state, double flops, const std::function<void()>& work) {
  const auto time = paired(state, work, sgemm);
  const double rate = flops / time.work, limit = kSgemmFlops / time.yardstick;
  state.counters["GFLOP/s"] = rate * 1e-9;
  state.counters["sgemm"] = limit * 1e-9;
  return state.counters["of_sgemm"] = rate / limit;
}

double step_target(const std::string& name, int64_t batch) {
  if (name == "facnn" && batch == 10) return 0.55;
  if (name == "lenet" && batch == 32) return 0.45;
  if (name == "mlp100" && batch == 32) return 0.60;
  return 0;
}
double predict_target(const std::string& name) {
  return name == "facnn" || name == "lenet" || name == "mlp100" ? 0.60 : 0;
}

void add_steps(const Subject& subject, int64_t batch) {
  const auto& name = subject.name;
  add(fmt::format("step/autograd/{}/{}", name, batch), [=](benchmark::State& state) {
    Trial b(subject, batch);
    const double reached = of_sgemm(state, 3 * b.flops, [&] { b.autograd_step(); });
    summarise(fmt::format("step {} batch {}, autograd", name, batch), reached, "of sgemm", 0);
  });
  if (!Trial(subject, 2).hand_step()) return;
  add(fmt::format("step/hand/{}/{}", name, batch), [=](benchmark::State& state) {
    Trial b(subject, batch);
    const double reached = of_sgemm(state, 3 * b.flops, [&] { b.hand_step(); });
    summarise(fmt::format("step {} batch {}, by hand", name, batch), reached, "of sgemm",
              step_target(name, batch));
  });
}

}  // namespace

void register_models() {
  add("sgemm/1024", [](benchmark::State& state) {
    const auto time = paired(state, sgemm, sgemm);
    state.counters["GFLOP/s"] = kSgemmFlops / time.work * 1e-9;
    summarise("sgemm 1024³", kSgemmFlops / time.work * 1e-9, "GFLOP/s", 0);
  });
  for (const auto& subject : subjects()) {
    const bool transformer = subject.name.starts_with("vit");
    for (const int64_t batch :
         transformer ? std::vector<int64_t>{64} : std::vector<int64_t>{10, 32})
      add_steps(subject, batch);
    add(fmt::format("predict/{}/256", subject.name), [=](benchmark::State& state) {
      Trial b(subject, 256);
      const double reached = of_sgemm(state, b.flops, [&] { b.predict(); });
      summarise(fmt::format("predict {} batch 256", subject.name), reached, "of sgemm",
                predict_target(subject.name));
    });
  }
}

}  // namespace tessera::bench

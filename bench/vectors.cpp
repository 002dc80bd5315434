// The server's arithmetic against the memory's own speed.
#include <ATen/ATen.h>

#include "measure.hpp"
#include "tensor/weights.hpp"

namespace tessera::bench {
namespace {

constexpr int64_t kClients = 100;
constexpr int64_t kParameters = 582026;  // facnn on 28×28

double of_copy(benchmark::State& state, double bytes, const std::function<void()>& work) {
  const auto time = paired(state, work, copy);
  const double rate = bytes / time.work, limit = 2 * kCopyBytes / time.yardstick;
  state.counters["GB/s"] = rate * 1e-9;
  state.counters["copy"] = limit * 1e-9;
  return state.counters["of_copy"] = rate / limit;
}

}  // namespace

void register_vectors() {
  add("copy/64MiB", [](benchmark::State& state) {
    of_copy(state, 2 * kCopyBytes, copy);
    summarise("memcpy, read + written", state.counters["GB/s"], "GB/s", 0);
  });
  add("mean/100 x facnn", [](benchmark::State& state) {
    std::vector<Weighted> parts;
    for (int64_t i = 0; i < kClients; ++i) {
      const Tensor w = at::full({kParameters}, static_cast<double>(i), at::kFloat);
      parts.push_back({{w, at::empty({0})}, static_cast<double>(i + 1)});
    }
    const double bytes = 4.0 * kParameters * (kClients + 1);
    const double reached = of_copy(state, bytes, [&] { benchmark::DoNotOptimize(mean(parts)); });
    summarise("weighted mean of 100 facnn", state.counters["GB/s"], "GB/s", 0);
    summarise("weighted mean of 100 facnn", reached, "of copy", 0.5);
  });
}

}  // namespace tessera::bench

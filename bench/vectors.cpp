// The server's arithmetic against the memory's own speed, or that of a matrix product.
#include <ATen/ATen.h>

#include "base/key.hpp"
#include "measure.hpp"
#include "tensor/gram.hpp"
#include "tensor/weights.hpp"

namespace tessera::bench {
namespace {

constexpr int64_t kVectors = 100;
constexpr int64_t kParameters = 582026;  // facnn on 28×28

double of_copy(benchmark::State& state, double bytes, const std::function<void()>& work) {
  const auto time = paired(state, work, copy);
  const double rate = bytes / time.work, limit = 2 * kCopyBytes / time.yardstick;
  state.counters["GB/s"] = rate * 1e-9;
  state.counters["copy"] = limit * 1e-9;
  return state.counters["of_copy"] = rate / limit;
}

/// Cosines of 500 models, as FedACS asks for them; counted as n² d multiply-adds, though 3/8 are
/// saved.
void gram_of_500(benchmark::State& state) {
  constexpr int64_t kModels = 500;
  const auto models = at::empty({kModels, kParameters}, at::kFloat);
  Rng rng(4);
  auto* value = models.data_ptr<float>();
  for (int64_t i = 0; i < models.numel(); ++i) value[i] = static_cast<float>(rng.uniform()) - 0.5F;
  const auto rows = models.unbind(0);
  const auto time = paired(
      state, [&] { benchmark::DoNotOptimize(gram(rows)); }, sgemm);
  const double flops = 2.0 * kModels * kModels * kParameters;
  const double rate = flops / time.work, limit = kSgemmFlops / time.yardstick;
  state.counters["GFLOP/s"] = rate * 1e-9;
  state.counters["sgemm"] = limit * 1e-9;
  state.counters["of_sgemm"] = rate / limit;
  summarise("Gram matrix of 500 facnn", rate / limit, "of sgemm", 0.7);
}

}  // namespace

void register_vectors() {
  add("copy/64MiB", [](benchmark::State& state) {
    of_copy(state, 2 * kCopyBytes, copy);
    summarise("memcpy, read + written", state.counters["GB/s"], "GB/s", 0);
  });
  add("mean/100 x facnn", [](benchmark::State& state) {
    std::vector<Weighted> parts;
    for (int64_t i = 0; i < kVectors; ++i) {
      const Tensor w = at::full({kParameters}, static_cast<double>(i), at::kFloat);
      parts.push_back({{w, at::empty({0})}, static_cast<double>(i + 1)});
    }
    const double bytes = 4.0 * kParameters * (kVectors + 1);
    const double reached = of_copy(state, bytes, [&] { benchmark::DoNotOptimize(mean(parts)); });
    summarise("weighted mean of 100 facnn", state.counters["GB/s"], "GB/s", 0);
    summarise("weighted mean of 100 facnn", reached, "of copy", 0.5);
  });
  add("gram/500 x facnn", gram_of_500);
}

}  // namespace tessera::bench

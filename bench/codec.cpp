// The codec of checkpoints and wire: one model as safetensors bytes.
#include <ATen/ATen.h>

#include <stdexcept>

#include "io/tensor/tensor_codec.hpp"
#include "measure.hpp"
#include "model/model.hpp"

namespace tessera::bench {
namespace {

TensorDict facnn() {
  auto model = make_model("facnn", {{1, 28, 28}, 10});
  if (!model.ok()) throw std::runtime_error(message(model.status()));
  return pack(Weighted{(*model)->init(1), 1.0});
}

void report(benchmark::State& state, const std::string& what, double bytes, const Paired& time) {
  state.counters["GB/s"] = bytes / time.work * 1e-9;
  state.counters["of_copy"] = bytes / time.work / (kCopyBytes / time.yardstick);
  summarise(what, bytes / time.work * 1e-9, "GB/s", 0);
}

}  // namespace

void register_codec() {
  add("safetensors/encode/facnn", [](benchmark::State& state) {
    const auto dict = facnn();
    const auto time = paired(
        state, [&] { benchmark::DoNotOptimize(encode(dict)); }, copy);
    report(state, "safetensors encode, facnn", static_cast<double>(encoded_size(dict)), time);
  });
  // Decoding copies nothing; the sum reads every number once, as the server's mean would.
  add("safetensors/decode and sum/facnn", [](benchmark::State& state) {
    const auto bytes = std::make_shared<const Bytes>(encode(facnn()));
    const auto work = [&] {
      auto decoded = decode(bytes, "bench");
      if (!decoded.ok()) throw std::runtime_error(message(decoded.status()));
      benchmark::DoNotOptimize(decoded->tensors.at("value.w").sum());
    };
    report(state, "safetensors decode + sum, facnn", static_cast<double>(bytes->size()),
           paired(state, work, copy));
  });
}

}  // namespace tessera::bench

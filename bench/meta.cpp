// A meta-learning step against plain training on the same samples: what second derivatives cost.
#include "method/meta/meta.hpp"

#include <ATen/ATen.h>

#include <stdexcept>

#include "base/key.hpp"
#include "measure.hpp"

namespace tessera::bench {
namespace {

constexpr int64_t kBatch = 32;

/// Two batches of random images: one to adapt on, one to judge by.
ClientData two_batches(const Shape& shape) {
  auto pool = std::make_shared<Pool>();
  const auto generator = at::detail::createCPUGenerator(1);
  std::vector<int64_t> sizes{2 * kBatch};
  sizes.insert(sizes.end(), shape.sample.begin(), shape.sample.end());
  pool->x = at::randn(sizes, generator, at::kFloat);
  pool->y = at::randint(shape.classes, {2 * kBatch}, generator, at::kLong);
  pool->classes = shape.classes;
  ClientData out;
  out.pool = pool;
  for (int64_t i = 0; i < 2 * kBatch; ++i) out.train.push_back(i);
  return out;
}

void add_meta(const std::string& name, const Shape& shape, const std::string& order,
              double target) {
  add("meta/" + order + "/" + name, [=](benchmark::State& state) {
    auto model = make_model(name, shape);
    if (!model.ok()) throw std::runtime_error(message(model.status()));
    const auto data = two_batches(shape);
    const auto start = (*model)->init(1);
    const Site site{**model, data, 1, 7};
    TrainOptions train;
    train.batch = kBatch;
    MetaOptions options;
    options.support = 0.5, options.order = order;
    const auto time = paired(
        state, [&] { benchmark::DoNotOptimize(meta_step(start, site, train, options)); },
        [&] { benchmark::DoNotOptimize(local_sgd(start, site, train)); });
    state.counters["of_plain"] = time.work / time.yardstick;
    summarise(fmt::format("MAML {}, {} order, 32 + 32 samples / two plain steps", name, order),
              time.work / time.yardstick, "x", target);
  });
}

}  // namespace

void register_meta() {
  const Shape grey{{1, 28, 28}, 10}, colour{{3, 32, 32}, 10};
  add_meta("mlp100", grey, "second", 0);
  add_meta("lenet", colour, "second", 5);
  add_meta("lenet", colour, "first", 0);
}

}  // namespace tessera::bench

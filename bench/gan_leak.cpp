// gan_leak RUN_DIR [VICTIM]: what the common generator of a finished run of fedavg-gan or
// pfedht-gan gives away (docs/methods.md §7.6): Fréchet distances of its pictures to a client's
// training pictures, to other clients' of the same classes, and what an evaluator takes them for.
// The evaluator is a lenet trained on everybody's test pictures, which the federation never trained
// on.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <cblas.h>
#include <fmt/format.h>

#include <cstdlib>
#include <numeric>

#include "attack/extraction.hpp"
#include "base/key.hpp"
#include "run/checkpoint.hpp"
#include "run/experiment.hpp"
#include "train/local_sgd.hpp"

namespace tessera {
namespace {

/// A part of clients' data as pixels.
Examples pixels_of(std::span<const ClientData> clients, Part part) {
  std::vector<Tensor> x, y;
  for (const auto& client : clients) {
    const auto own = client.range(part, 0, client.size(part));
    x.push_back(pixel_range(client).to_pixels(own.x).clamp(0, 1)), y.push_back(own.y);
  }
  return {at::cat(x), at::cat(y)};
}

Weights trained(const Model& model, const Examples& pictures, int64_t classes, uint64_t key) {
  ClientData data;
  data.pool = std::make_shared<Pool>(Pool{pictures.x, pictures.y, classes});
  data.train.resize(static_cast<size_t>(pictures.size()));
  std::iota(data.train.begin(), data.train.end(), 0);
  TrainOptions options;
  options.epochs = 12, options.lr = 0.02, options.momentum = 0.9, options.loss = "ce";
  return local_sgd(model.init(key), {model, data, 1, key}, options).weights;
}

double accuracy(const InvertedModel& evaluator, const Examples& some) {
  return (evaluator.model.predict(evaluator.at, some.x).argmax(1) == some.y)
      .to(at::kDouble)
      .mean()
      .item<double>();
}

/// As many of each class as `wanted` has, from the front; fewer where there are no more.
Examples of_same_classes(const Examples& wanted, const Examples& all, int64_t classes) {
  std::vector<Tensor> rows;
  for (int64_t label = 0; label < classes; ++label) {
    const auto found = at::nonzero(all.y == label).flatten();
    const auto count = (wanted.y == label).sum().item<int64_t>();
    rows.push_back(found.slice(0, 0, count));
  }
  const auto at = at::cat(rows);
  return {all.x.index_select(0, at), all.y.index_select(0, at)};
}

/// Of 100 made pictures of each class, how many the evaluator takes for it: in %.
std::string taken_by_class(const Gan& gan, const Tensor& generator, const InvertedModel& evaluator,
                           uint64_t key) {
  std::string out;
  for (int64_t label = 0; label < gan.spec.classes; ++label) {
    const auto y = at::full({100}, label, at::kLong);
    const Examples made{gan.pictures(generator, y, derive(key, label)), y};
    out += fmt::format(" {:.0f}", 100 * accuracy(evaluator, made));
  }
  return out;
}

Status measure(const std::string& run, size_t victim) {
  TESSERA_ASSIGN(const auto experiment, load_experiment(run + "/config.toml", {}));
  const auto seed = static_cast<uint64_t>(experiment.run.seed);
  TESSERA_ASSIGN(const auto federation,
                 load_federation(experiment.data, derive(seed, Purpose::kPartition)));
  TESSERA_ASSIGN(const auto found, CheckpointFile::open(run));
  const auto& server = found.second.server;
  if (!server.contains("gan.generator") || victim >= federation.clients.size())
    return fail(Error::kInvalid, "'{}' has no generator, or there is no such client", run);
  const Gan gan({federation.sample_shape, federation.classes});
  TESSERA_ASSIGN(const auto lenet,
                 make_model("lenet", {federation.sample_shape, federation.classes}));
  const std::span<const ClientData> all = federation.clients;
  const auto tests = pixels_of(all, Part::kTest);
  const InvertedModel evaluator{*lenet,
                                trained(*lenet, tests, federation.classes, derive(seed, 1)),
                                federation.sample_shape,
                                {}};
  auto others = federation.clients;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(victim));
  const auto mine = pixels_of(all.subspan(victim, 1), Part::kTrain);
  const auto theirs = of_same_classes(mine, pixels_of(others, Part::kTrain), federation.classes);
  fmt::print(
      "evaluator: lenet on {} test pictures; right for {:.1f} % of client {}'s {} training "
      "pictures\n",
      tests.size(), 100 * accuracy(evaluator, mine),
      federation.name_of(static_cast<int64_t>(victim)), mine.size());
  const auto print = [&](const char* what, const Tensor& generator) {
    const auto leak = generator_leak(gan, generator, evaluator, mine, theirs, derive(seed, 2));
    fmt::print(
        "{:<21}distance to the client's {:7.1f}, to others' {:7.1f}; taken for 0, 1, …:{} %\n",
        what, leak.victim, leak.other, taken_by_class(gan, generator, evaluator, derive(seed, 3)));
    return leak;
  };
  print("untrained generator", gan.init(derive(seed, 4)).generator);
  const auto leak = print("common generator", server.at("gan.generator"));
  fmt::print("{:<21}distance to the client's {:7.1f}\n", "uniform noise", leak.noise);
  fmt::print("{:<21}distance to the client's {:7.1f}\n", "others' pictures", leak.apart);
  return ok();
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  at::set_num_threads(1);
  openblas_set_num_threads(1);
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "gan_leak RUN_DIR [VICTIM]: a client's number, 0 by default\n");
    return 2;
  }
  const auto victim = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 0;
  const auto status = tessera::measure(argv[1], victim);
  if (status.ok()) return 0;
  fmt::print(stderr, "gan_leak: {}\n", tessera::message(status));
  return 2;
}

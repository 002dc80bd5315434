// gan_leak RUN_DIR [VICTIM [OTHER]]: what the common generator of a finished run of fedavg-gan or
// pfedht-gan gives away (docs/methods.md §7.6): Fréchet distances of its pictures to the training
// pictures of two clients, and what an evaluator takes them for. The evaluator is a lenet trained
// on everybody's test pictures, which the federation never trained on.

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

Status measure(const std::string& run, size_t victim, size_t other) {
  TESSERA_ASSIGN(const auto experiment, load_experiment(run + "/config.toml", {}));
  const auto seed = static_cast<uint64_t>(experiment.run.seed);
  TESSERA_ASSIGN(const auto federation,
                 load_federation(experiment.data, derive(seed, Purpose::kPartition)));
  TESSERA_ASSIGN(const auto found, CheckpointFile::open(run));
  const auto& server = found.second.server;
  if (!server.contains("gan.generator") || std::max(victim, other) >= federation.clients.size() ||
      victim == other)
    return fail(Error::kInvalid, "'{}' has no generator, or there are no two such clients", run);
  const Gan gan({federation.sample_shape, federation.classes});
  TESSERA_ASSIGN(const auto lenet,
                 make_model("lenet", {federation.sample_shape, federation.classes}));
  const std::span<const ClientData> all = federation.clients;
  const auto tests = pixels_of(all, Part::kTest);
  const InvertedModel evaluator{*lenet,
                                trained(*lenet, tests, federation.classes, derive(seed, 1)),
                                federation.sample_shape,
                                {}};
  const auto mine = pixels_of(all.subspan(victim, 1), Part::kTrain),
             theirs = pixels_of(all.subspan(other, 1), Part::kTrain);
  fmt::print(
      "evaluator: lenet on {} test pictures; accuracy on {} training pictures of client {}: "
      "{:.1f} %\n",
      tests.size(), mine.size(), federation.name_of(static_cast<int64_t>(victim)),
      100 * accuracy(evaluator, mine));
  const auto print = [&](const char* what, const Tensor& generator) {
    const auto leak = generator_leak(gan, generator, evaluator, mine, theirs, derive(seed, 2));
    fmt::print(
        "{:<22}distance to the victim's {:8.2f}   to the other's {:8.2f}   taken for their "
        "class {:5.1f} %\n",
        what, leak.victim, leak.other, 100 * leak.mean_accuracy);
    return leak;
  };
  print("untrained generator", gan.init(derive(seed, 3)).generator);
  const auto leak = print("common generator", server.at("gan.generator"));
  fmt::print("{:<22}distance to the victim's {:8.2f}\n", "uniform noise", leak.noise);
  fmt::print("{:<22}distance to the victim's {:8.2f}\n", "the other's pictures", leak.apart);
  fmt::print("taken for their class, by class:");
  for (const double share : leak.accuracy) fmt::print(" {:.0f}", 100 * share);
  fmt::print(" %\n");
  return ok();
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  at::set_num_threads(1);
  openblas_set_num_threads(1);
  if (argc < 2 || argc > 4) {
    fmt::print(stderr,
               "gan_leak RUN_DIR [VICTIM [OTHER]]: clients by number, 0 and 1 by default\n");
    return 2;
  }
  const auto number = [&](int at, long otherwise) {
    return static_cast<size_t>(argc > at ? std::strtol(argv[at], nullptr, 10) : otherwise);
  };
  const auto status = tessera::measure(argv[1], number(2, 0), number(3, 1));
  if (status.ok()) return 0;
  fmt::print(stderr, "gan_leak: {}\n", tessera::message(status));
  return 2;
}

#include "measure/rounds.hpp"

#include <ATen/ATen.h>

#include <stdexcept>

#include "base/clock.hpp"

namespace tessera::bench {
namespace {

// About a tenth for validation and a fifth for the test, as the examples have it.
constexpr int64_t kTrain = Rounds::kStepsEach * Rounds::kBatch, kVal = 6, kTest = 14;

Federation random_images() {
  constexpr int64_t kEach = kTrain + kVal + kTest;
  auto pool = std::make_shared<Pool>();
  const auto generator = at::detail::createCPUGenerator(1);
  pool->x = at::randn({Rounds::kClients * kEach, 1, 28, 28}, generator, at::kFloat);
  pool->y = at::randint(10, {Rounds::kClients * kEach}, generator, at::kLong);
  pool->classes = 10;
  Federation out;
  out.clients.resize(Rounds::kClients);
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

Session session_of(const std::string& method) {
  const auto info = *find_method(method);
  return Session({.model = *make_model("facnn", {{1, 28, 28}, 10}),
                  .method = info.draft()->build(TrainOptions{.batch = Rounds::kBatch}),
                  .info = info,
                  .seed = 1,
                  .clients = Rounds::kClients,
                  .rounds = 1'000'000});
}

}  // namespace

Rounds::Rounds(const std::string& method, int threads, bool evaluates)
    : federation_(random_images()),
      simulation_(session_of(method), federation_, FederationOptions{},
                  {.engine = {.threads = threads}}),
      evaluates_(evaluates) {
  if (!simulation_.driver().begin().ok()) throw std::runtime_error("cannot begin");
}

double Rounds::seconds() {
  const double start = wall_seconds();
  ++round_;
  const bool played = simulation_.driver().play(round_).ok() &&
                      (!evaluates_ || simulation_.driver().evaluate(round_).ok());
  if (!played) throw std::runtime_error("a round failed");
  return wall_seconds() - start;
}

}  // namespace tessera::bench

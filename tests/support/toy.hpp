// Small federations that tests can hold in their head.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/local/local_engine.hpp"
#include "run/driver.hpp"

namespace tessera::test {

/// Client i draws its samples around class centres that lean its own way: personal models win.
/// As vectors of 6 features, or as 28×28 images in which each feature fills one of 6 fields.
/// The commons are everybody's validation rows.
Federation toy_federation(int64_t clients, int64_t newcomers, int64_t samples, bool images = false);

/// Two logits (w0 x, w1 x) on one input; gradients fit on a napkin. w0 is body, w1 is head.
class NapkinModel final : public Model {
 public:
  NapkinModel();
  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return buffers_; }
  Weights init(uint64_t key) const override;
  Output forward(const Weights& at, const Tensor& x, const Pass& pass) const override;

 private:
  Layout layout_, buffers_;
};

/// One client with samples x[i] of class y[i], the same ones for training and test.
ClientData napkin_client(std::vector<float> x, std::vector<int64_t> y);

struct ToyOptions {
  std::string method = "fedavg";
  std::vector<std::pair<std::string, double>> numbers;  // method options
  std::vector<std::pair<std::string, std::string>> words;
  TrainOptions train;
  FederationOptions federation;
  int64_t rounds = 5;
  int threads = 1;
  bool through_wire = false;
  uint64_t seed = 7;
};

/// Training in which nothing comes out even: momentum, two epochs, batches that do not divide the
/// data.
ToyOptions noisy(const std::string& method);

/// A driver with everything it borrows.
struct Toy {
  Toy(Federation data, std::shared_ptr<const Model> net, const ToyOptions& options);

  Federation federation;
  ClientData everybody;
  std::shared_ptr<const Model> model;
  MethodInfo info;
  std::unique_ptr<AnyMethod> method;
  std::unique_ptr<Setup> setup;
  std::unique_ptr<ClientContext> context;
  std::unique_ptr<LocalEngine> engine;
  std::unique_ptr<Driver> driver;

  /// Plays rounds first … last; a failure fails the test.
  std::vector<RoundReport> play(int64_t first, int64_t last);
  EvalReport evaluate(int64_t round);
};

/// The toy federation on mlp100, or on the first of lenet, vit-s28 and lenet16-bn that the method's
/// check does not refuse.
Toy make_toy(const ToyOptions& options, int64_t clients = 4, int64_t newcomers = 1);

/// Bits of everything a run has produced: server state and client states.
std::string fingerprint(const Toy& toy);
std::string fingerprint(const TensorDict& dict);

}  // namespace tessera::test

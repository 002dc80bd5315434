// Small federations that tests can hold in their head.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run/simulation.hpp"

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
  GuardOptions guard;
  int64_t rounds = 5;
  int threads = 1;
  bool through_wire = false;
  uint64_t seed = 7;
};

/// Training in which nothing comes out even: momentum, two epochs, batches that do not divide the
/// data.
ToyOptions noisy(const std::string& method);

/// A driver with everything it borrows, and single calls of its method on named tensors. Not
/// thread-safe; a Toy must not be moved once a Local of it is in use.
struct Toy {
  Toy(Federation data, std::shared_ptr<const Model> net, const ToyOptions& options);
  /// The same with a method that is in no table.
  Toy(Federation data, std::shared_ptr<const Model> net, const ToyOptions& options, MethodInfo line,
      std::shared_ptr<const AnyMethod> built);

  std::unique_ptr<Federation> owned;
  Federation& federation;
  std::shared_ptr<const Model> model;
  MethodInfo info;
  std::shared_ptr<const AnyMethod> method;
  std::unique_ptr<Simulation> simulation;
  // Of the simulation:
  const Session* session;
  ClientStore* store;
  Driver* driver;

  /// Plays rounds first … last; a failure fails the test.
  std::vector<RoundReport> play(int64_t first, int64_t last);
  EvalReport evaluate(int64_t round);

  /// The setup of a round as the server sees it; lives as long as the Toy.
  const Setup& setup(int64_t round = 1) const;
  /// What a client (or newcomer: ids from `clients` on) works with.
  Local local(ClientId id, int64_t round = 1, uint64_t key = 42, Why why = Why::kTrain) const;
  /// The same with other data than the client's own.
  Local local(ClientId id, const ClientData& data, int64_t round = 1, uint64_t key = 42) const;

  TensorDict server() const { return driver->server(); }
  /// A state from its tensors; throws if it is none.
  ServerStatePtr typed(const TensorDict& server) const;
  /// What `id` is sent in a round in which `among` are asked (only itself if empty).
  TensorDict download(const TensorDict& server, ClientId id, Why why = Why::kTrain,
                      std::vector<ClientId> among = {}, int64_t round = 1) const;
  /// What a newcomer is sent; `among`: clients that are evaluated with it.
  TensorDict download_guest(const TensorDict& server, const std::optional<TensorDict>& guest,
                            ClientId id, std::vector<ClientId> among = {}, int64_t round = 1) const;
  TensorDict learn(const TensorDict& server, const std::optional<TensorDict>& guest,
                   const TensorDict& up, int64_t round = 1) const;
  /// Where the sum will do, `uploads` are added first, as the driver does.
  TensorDict aggregate(const TensorDict& server, std::vector<Received<TensorDict>> uploads,
                       int64_t round = 1) const;
  std::vector<Exhibit> exhibits(const TensorDict& server, const Evaluated& evaluated,
                                int64_t round = 1) const;
  std::optional<Weights> global(const TensorDict& server) const;
  /// A client's initial state; and the one it has now.
  TensorDict fresh(ClientId id) const;
  TensorDict state(ClientId id) const;
  /// A view of a client's model, made as an evaluation makes it.
  Personal personal(const TensorDict& client, const TensorDict& down, const Local& local,
                    View view) const;

 private:
  mutable std::deque<Setup> setups_;
};

/// The toy federation on mlp100, or on the first of lenet, vit-s28 and lenet16-bn that the method's
/// check does not refuse.
Toy make_toy(const ToyOptions& options, int64_t clients = 4, int64_t newcomers = 1);

/// Bits of everything a run has produced: server state and the states of clients that trained.
std::string fingerprint(const Toy& toy);
std::string fingerprint(const TensorDict& dict);

}  // namespace tessera::test

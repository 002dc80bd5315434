// FedHealth (Chen et al., "FedHealth: A Federated Transfer Learning Framework for Wearable
// Healthcare", IEEE Intelligent Systems 2020): the server trains a first model on public data,
// FedAvg goes on from there, and each client fits the upper layers of its copy while a CORAL term
// keeps their features' covariance near that of the public data (methods.md §3.3).
//
// Deviations: the covariance travels only where stage 2 happens, at evaluations. Stage 2 takes
// batches of at least 32 samples, whatever train.batch is: smaller ones have no usable covariance.
// Public data are `data.public` of every client's training samples, which the client then lacks.

#include <algorithm>

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "optim/coral.hpp"
#include "optim/transfer.hpp"

namespace tessera {
namespace {

constexpr int64_t kLeastBatch = 32;

struct FedHealth {
  struct Server {
    Weights g;
    std::optional<Tensor> covariance;  // [z, z]: of g's features of the public data
    std::optional<Weights> start;      // with `mix`: g before the last aggregation
    double samples = 0;                // and what that aggregation weighs
    static void fields(auto& m, auto&& f) {
      f("g", m.g), f("covariance", m.covariance), f("start", m.start), f("samples", m.samples);
    }
  };
  struct Client {
    int64_t rounds = 0;  // of the run: after the last one stage 2 is due
    static void fields(auto& m, auto&& f) { f("rounds", m.rounds); }
  };
  struct Down {
    Weights g;
    std::optional<Tensor> covariance;  // to evaluate
    static void fields(auto& m, auto&& f) { f("g", m.g), f("covariance", m.covariance); }
  };
  using Up = Weighted;

  TrainOptions train;
  double eta_c = 0.01;
  int64_t public_epochs = 10;
  bool mix = false;
  TransferOptions transfer{.ft_epochs = 1};
  static void options(auto& m, auto&& f) {
    f(at_least("eta_c", 0, "weight of the alignment of the features' covariances"), m.eta_c);
    f(between("public_epochs", 1, 1e5, "passes of the server over the public data at the start"),
      m.public_epochs);
    f(any("mix", "the server trains on the public data in every round, like a client"), m.mix);
    TransferOptions::options(m.transfer, f);
  }

  Status check(const Setup& setup) const {
    if (setup.commons < 2)
      return fail(Error::kInvalid,
                  "fedhealth starts from public data at the server, and there are {} such samples; "
                  "set data.public = 0.1",
                  setup.commons);
    for (const auto& slice : setup.model.layout().slices())
      if (slice.features) return ok();
    return fail(Error::kInvalid,
                "fedhealth freezes feature layers, and the model has none; set model.name to a "
                "convolutional or recurrent model such as lenet or gru64");
  }

  Server init_server(const Setup& setup) const { return {.g = setup.model.init(setup.key)}; }
  Client init_client(const Setup& setup, ClientId) const { return {setup.rounds}; }
  Server attend(Server server, const Local& commons) const {
    if (commons.round == 0) {
      // At the rate of the first round.
      const Local first{commons.model, commons.data, 1, commons.key};
      server.g = local_sgd(server.g, first, train, {.epochs = public_epochs}).weights;
    } else if (server.start) {
      const auto own = upload_of(local_sgd(*server.start, commons, train), commons);
      server.g = mean(std::vector<Weighted>{{server.g, server.samples}, own});
      server.start.reset();
    }
    server.covariance = feature_covariance(commons.model, server.g, commons.data);
    return server;
  }

  Down broadcast(const Server& server, ClientId) const { return {server.g, std::nullopt}; }
  Down broadcast_eval(const Server& server, ClientId) const {
    return {server.g, server.covariance};
  }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto trained = local_sgd(down.g, local, train);
    return {me, upload_of(trained, local), trained.loss};
  }
  Server aggregate(Server server, std::span<const Received<Up>> uploads) const {
    const auto parts = bodies(uploads);
    if (mix) {
      server.start = server.g, server.samples = 0;
      for (const auto& part : parts) server.samples += part.weight;
    }
    server.g = mean(parts);
    return server;
  }
  Weights global(const Server& server) const { return server.g; }

  Personal personalize(const Client& me, const Down& down, const Local& local, View view) const {
    if (view == View::kPre || !transfer.due(local, me.rounds)) return plain(local.model, down.g);
    auto stage2 = transfer.stage2(train);
    stage2.batch = std::max(stage2.batch, kLeastBatch);
    const auto& source = down.covariance.value();
    const auto aligned = [&](const Model& model, Weights& at, const Examples& batch, uint64_t key,
                             Tensor& grad) {
      return aligned_gradient(model, at, batch, train.loss_kind(), key, source, eta_c, grad);
    };
    const auto fitted =
        train_upper(down.g, local, stage2, eta_c > 0 ? ModelGradient(aligned) : nullptr);
    return plain(local.model, fitted.weights);
  }
};

}  // namespace

MethodInfo fedhealth() {
  return describe<FedHealth>({.name = "fedhealth",
                              .line = "public data first, then fedavg, then aligned transfer",
                              .paper = "Chen et al., IEEE Intelligent Systems 2020",
                              .headline = View::kPost});
}

}  // namespace tessera

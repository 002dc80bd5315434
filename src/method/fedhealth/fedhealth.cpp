// FedHealth (Chen et al., "FedHealth: A Federated Transfer Learning Framework for Wearable
// Healthcare", IEEE Intelligent Systems 2020): the server trains a first model on public data,
// FedAvg goes on with that, and each client fits the upper layers of its copy while a CORAL term
// keeps their features' covariance near that of the public data (docs/methods.md §3.3).
//
// Deviations: the covariance travels only where stage 2 happens, at evaluations. Stage 2 takes
// batches of at least 32 samples, whatever train.batch is: smaller ones have no usable covariance.
// Public data are `data.public` of every client's training samples, which the client then lacks.

#include <algorithm>

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "method/fedhealth/coral.hpp"
#include "train/transfer.hpp"

namespace tessera {
namespace {

constexpr int64_t kLeastBatch = 32;

struct FedHealth {
  struct Server {
    Weights g;
    std::optional<Tensor> covariance;  // [z, z]: of g's features of the public data
    static void fields(auto& m, auto&& f) { f("g", m.g), f("covariance", m.covariance); }
  };
  using Client = Nothing;
  struct Down {
    Weights g;
    std::optional<Tensor> covariance;  // to evaluate
    static void fields(auto& m, auto&& f) { f("g", m.g), f("covariance", m.covariance); }
  };
  using Up = Mean<Trained<Weights, &Down::g>>;

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

  static int64_t public_samples(const Setup& setup) {
    return setup.commons ? setup.commons->train_size() : 0;
  }
  Status check(const Setup& setup) const {
    if (public_samples(setup) < 2)
      return fail(Error::kInvalid,
                  "fedhealth starts from public data at the server, and there are {} such samples; "
                  "set data.public = 0.1",
                  public_samples(setup));
    for (const auto& slice : setup.model.layout().slices())
      if (slice.features) return ok();
    return fail(Error::kInvalid,
                "fedhealth freezes feature layers, and the model has none; set model.name to a "
                "convolutional or recurrent model such as lenet or gru64");
  }

  /// A restored state has the covariance that goes with its model.
  Status check(const Server& server, const Setup& setup) const {
    if (public_samples(setup) == 0) return ok();
    const at::NoGradGuard no_grad;
    const auto one = setup.commons->range(Part::kTrain, 0, 1);
    const int64_t z = setup.model.forward(server.g, one.x, Pass{}).features.size(1);
    if (server.covariance && server.covariance->sizes().equals({z, z})) return ok();
    return fail(Error::kInvalid, "fedhealth: the covariance of {} features must be [{}, {}]", z, z,
                z);
  }

  Server init_server(const Setup& setup) const {
    const auto first = setup.model.init(setup.key);
    if (public_samples(setup) == 0) return {first};
    // At the rate of the first round.
    const Site site{setup.model, *setup.commons, 1, setup.server_key};
    return measured(local_sgd(first, site, train, {.epochs = public_epochs}).weights, setup);
  }
  Client init_client(const Local&) const { return {}; }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    for (const auto& ask : asks)
      send(ask, {server.g, ask.why == Why::kTrain ? std::nullopt : server.covariance});
  }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto trained = local_sgd(down.g, local, train);
    return {me, {trained.weights, samples_of(local)}, trained.loss};
  }
  Up expected(const Server& server, Why, const Setup&) const { return {server.g}; }
  Server aggregate(Server server, const Sum<Up>& sum, const Setup& setup) const {
    const Weighted clients{sum->value, sum->weight};
    if (!mix || public_samples(setup) == 0) return measured(clients.value, setup);
    const Site site{setup.model, *setup.commons, setup.round, setup.server_key};
    const Weighted own{local_sgd(server.g, site, train).weights,
                       static_cast<double>(public_samples(setup))};
    return measured(mean(std::vector<Weighted>{clients, own}), setup);
  }
  static Server measured(const Weights& g, const Setup& setup) {
    if (public_samples(setup) == 0) return {g};
    return {g, feature_covariance(setup.model, g, *setup.commons)};
  }
  Weights global(const Server& server, const Setup&) const { return server.g; }

  Personal personalize(const Client&, const Down& down, const Local& local, View view) const {
    if (view == View::kPre || !transfer.due(local.round, local.setup.rounds))
      return plain(local.model, down.g);
    auto stage2 = transfer.stage2(train);
    stage2.batch = std::max(stage2.batch, kLeastBatch);
    const auto& source = down.covariance.value();
    const auto loss = train.loss_on(local.data);
    const auto aligned = [&](const Model& model, Weights& at, const Examples& batch, uint64_t key,
                             Tensor& grad) {
      return aligned_gradient(model, at, batch, loss, key, source, eta_c, grad);
    };
    const auto fitted =
        train_upper(down.g, local, stage2, eta_c > 0 ? ModelGradient(aligned) : nullptr);
    return plain(local.model, fitted.weights);
  }
};

}  // namespace

MethodInfo fedhealth() {
  return describe<FedHealth>(
      {.name = "fedhealth",
       .line = "public data first, then fedavg, then aligned transfer",
       .paper = "Chen et al., IEEE Intelligent Systems 2020",
       .equation = "Sun and Saenko, 2016, eqs. 1 to 3",
       .section = "3.3",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its trained model"}},
                    .peers = Shown::kSum,
                    .sent = "the mean",
                    .stays = "its fitted copy",
                    .remark = "the server holds public data"},
       .headline = View::kPost,
       .beyond_sgd = "aligns covariances of a client's features, with a gradient of its own"});
}

}  // namespace tessera

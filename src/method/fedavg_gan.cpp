// FedAvg with the federated GAN of pFedHT (Liu et al., "Personalized Federated Learning Based on
// Hypernetworks and Attention Mechanism Ensembles for Internet of Things", eqs. 9, 10, 21, 22;
// docs/methods.md §7.6): clients also train a generator and a discriminator of pictures, which are
// averaged like the model; what the common generator makes joins a client's training data, or
// stands in for them.
// Deviations: eq. 10 prints the generator's loss for the discriminator and eq. 9 none; here both
// have the usual pair (softplus). The paper leaves labels of made pictures undefined: here the
// networks know the class. Model, generator and discriminator travel as one vector, so that uploads
// stay sums. Adam begins anew every round, as all local optimisers here.

#include <ATen/ATen.h>

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "method/gan_round.hpp"

namespace tessera {
namespace {

struct FedAvgGan {
  struct Server {
    Weights g;
    GanWeights gan;
    static void fields(auto& m, auto&& f) { f("g", m.g), f("gan", m.gan); }
  };
  using Client = Nothing;
  /// w: model [d], generator [d_G] and discriminator [d_D] one after the other; b: the model's.
  /// Evaluations get the generator only where it is used, and never the discriminator.
  using Down = Weights;
  using Up = Mean<Trained<Weights>>;

  TrainOptions train;
  GanRound gan;
  static void options(auto& m, auto&& f) { GanRound::options(m.gan, f); }

  Status check(const Setup& setup) const { return GanRound::check("fedavg-gan", setup.model); }

  Server init_server(const Setup& setup) const {
    return {setup.model.init(setup.key), GanRound::init(setup.model, setup.key)};
  }
  Client init_client(const Local&) const { return {}; }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup& setup,
                 const Send<Down>& send) const {
    const auto& [g, both] = server;
    const Weights whole = joined(g, both);
    const Weights evaluated =
        gan.use.due(setup.round, setup.rounds) ? Weights{at::cat({g.w, both.generator}), g.b} : g;
    for (const auto& ask : asks)
      send(ask, ask.why == Why::kTrain ? whole : ask.why == Why::kEvaluate ? evaluated : g);
  }

  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto [g, both] = parted(down, local.model);
    const auto pairs = GanRound::pairs(local, g, train);
    const auto data = gan.training_data(local, pairs.model, both.generator);
    const auto trained = local_sgd(g, on(local, *data), train);
    return {me,
            {joined(trained.weights, gan.learned(local, *pairs.gan, both)), samples_of(local)},
            trained.loss};
  }
  Up expected(const Server& server, Why, const Setup&) const {
    return {joined(server.g, server.gan)};
  }
  Server aggregate(Server, const Sum<Up>& sum, const Setup& setup) const {
    auto [g, both] = parted(sum->value, setup.model);
    return {std::move(g), std::move(both)};
  }
  Weights global(const Server& server, const Setup&) const { return server.g; }

  // The GAN is no part of a view, so an evaluation does not train it. Newcomers have no generator.
  Personal personalize(const Client&, const Down& down, const Local& local, View view) const {
    const int64_t d = local.model.layout().numel();
    const Weights g{down.w.narrow(0, 0, d), down.b};
    if (view == View::kPre) return plain(local.model, g);
    if (down.w.numel() == d) return plain(local.model, local_sgd(g, local, train).weights);
    const auto pairs = GanRound::pairs(local, g, train);
    const auto data = gan.training_data(local, pairs.model, down.w.slice(0, d));
    return plain(local.model, local_sgd(g, on(local, *data), train).weights);
  }

  std::vector<Exhibit> exhibits(const Server& server, const Evaluated&, const Setup& setup) const {
    return {GanRound::exhibit(setup.model, server.gan.generator, setup.key)};
  }

 private:
  static Weights joined(const Weights& g, const GanWeights& both) {
    return {at::cat({g.w, both.generator, both.discriminator}), g.b};
  }
  /// Copies: what becomes a state must not keep the whole vector alive beside its part.
  static Server parted(const Weights& whole, const Model& model) {
    const int64_t d = model.layout().numel();
    const int64_t d_g = GanRound::networks(model).generator.layout().numel();
    return {{whole.w.narrow(0, 0, d).clone(), whole.b},
            {whole.w.narrow(0, d, d_g).clone(), whole.w.slice(0, d + d_g).clone()}};
  }
};

}  // namespace

MethodInfo fedavg_gan() {
  return describe<FedAvgGan>(
      {.name = "fedavg-gan",
       .line = "fedavg with pictures from a generator all train together",
       .paper = "Liu et al. (pFedHT)",
       .equation = "eqs. 9, 10, 21, 22",
       .section = "7.6",
       .down = "d + d_G + d_D",
       .up = "d + d_G + d_D",
       .exposure = {.server = {{.tensor = "value.w",
                                .words = "its trained model, generator and discriminator",
                                .covers = Covers::kFirst}},
                    .peers = Shown::kSum,
                    .sent = "the means"},
       .headline = View::kPre,
       .beyond_sgd = kGanBeyond,
       .all_virtual = true});
}

}  // namespace tessera

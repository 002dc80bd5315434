// pFedGP (Achituve et al., "Personalized Federated Learning with Gaussian Processes", NeurIPS 2021,
// §4): a shared feature extractor, averaged without weights, and on every client a Gaussian-process
// classifier that its own data define. There is no head: the model's last linear layer is left out
// and never travels.
//
// A local step predicts a random half of the client's data from the other half (of a time series
// the later half) and moves the extractor down the gradient of the cross-entropy. Of [train] it
// uses the optimiser and its rates; a step takes all data, or a fresh `cap` of them. Deviations
// (docs/methods.md §7.3): `likelihood = dirichlet` is closed form; `pg_tree` is the paper's, with
// its draws of the auxiliary variables held constant in the gradient.

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "method/pfedgp/gp_options.hpp"
#include "tensor/split.hpp"
#include "train/check_task.hpp"
#include "train/optimizer.hpp"

namespace tessera {
namespace {

struct PFedGP {
  struct Server {
    Weights g;  // w: [d − d_P]
    static void fields(auto& m, auto&& f) { f("g", m.g); }
  };
  using Client = Nothing;
  using Down = Weights;
  using Up = Mean<Trained<Weights>>;

  TrainOptions train;
  GpOptions gp;
  int64_t inner_steps = 3, cap = 500;
  static void options(auto& m, auto&& f) {
    GpOptions::options(m.gp, f);
    f(between("inner_steps", 1, 1e6, "gradient steps of a client per round"), m.inner_steps);
    f(between("cap", 2, 1e5, "samples in a kernel matrix at most"), m.cap);
  }

  Status check(const Setup& setup) const {
    if (!setup.model.has_features())
      return fail(Error::kInvalid,
                  "pfedgp reads what the last linear layer sees, but this network does not end in "
                  "one; let its forward return the output of an nn.Linear");
    if (train.class_weights != "none")
      return fail(Error::kInvalid,
                  "pfedgp trains by what its Gaussian processes predict, in which samples have no "
                  "weights; set train.class_weights = \"none\"");
    if (train.loss_kind() == Loss::kCrossEntropy) return ok();
    return fail(Error::kInvalid,
                "pfedgp predicts one class per sample and trains by cross-entropy; set train.loss "
                "to ce");
  }
  Status check(const ClientData& data) const { return check_task(data); }

  static Split split(const Model& model) { return {model.layout(), model.layout().trailing(1)}; }
  /// The model with a head of zeros, which nothing reads.
  static Weights whole(const Model& model, const Weights& g) {
    const auto parts = split(model);
    return parts.joined(at::zeros({parts.numel()}, g.w.options()), g);
  }

  Server init_server(const Setup& setup) const {
    return {split(setup.model).rest_of(setup.model.init(setup.key))};
  }
  Client init_client(const Local&) const { return {}; }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    for (const auto& ask : asks) send(ask, server.g);
  }

  /// How much of the first half of a batch may tell of the second: all of it, unless they share raw
  /// values.
  static int64_t known_of(const ClientData& data, std::span<const int64_t> positions) {
    const auto half = static_cast<int64_t>(positions.size()) / 2;
    if (!data.order.chronological) return half;
    return std::max<int64_t>(1, clear_before(rows_at(data.train, positions), half, data.order.gap));
  }
  /// Cross-entropy of the second half of a batch given the first, and its gradient. In a time
  /// series the second half is the later one.
  double predictive(Weights& at, const Site& site, uint64_t key, Tensor& grad) const {
    auto order = Rng(key).permutation(site.data.train_size());
    if (std::ssize(order) > cap) order.resize(static_cast<size_t>(cap));
    if (site.data.order.chronological) std::sort(order.begin(), order.end());
    const auto batch = site.data.take(Part::kTrain, order);
    const int64_t n = batch.size(), half = n / 2, known = known_of(site.data, order);
    const auto w = at.w.detach().requires_grad_(true);
    const auto out = site.model.forward({w, at.b}, batch.x, {true, key});
    const auto z = unit_rows(out.features);
    const auto predict = gp.fit(z, batch.y, known, site.data.classes(), key);
    const auto loss =
        at::nll_loss(predict(z.narrow(0, half, n - half)), batch.y.narrow(0, half, n - half));
    // A tree of one class is certain, whatever the features are: nothing to learn.
    if (loss.requires_grad())
      grad.copy_(torch::autograd::grad({loss}, {w})[0]);
    else
      grad.zero_();
    at.b = out.buffers;
    return loss.item<double>();
  }
  /// The whole model after the local steps.
  SgdResult trained(const Weights& g, const Site& site) const {
    SgdResult out{whole(site.model, g)};
    Optimizer optimizer(train, train.lr_at(site.round));
    auto grad = at::empty_like(out.weights.w);
    for (int64_t step = 0; step < inner_steps; ++step, ++out.steps) {
      out.loss += predictive(out.weights, site, derive(site.key, step), grad) /
                  static_cast<double>(inner_steps);
      optimizer.step(out.weights.w, grad);
    }
    return out;
  }

  Step<Client, Up> local_update(const Client&, const Down& g, const Local& local) const {
    const auto after = trained(g, local);
    return {{}, {split(local.model).rest_of(after.weights), 1}, after.loss};
  }
  Up expected(const Server& server, Why, const Setup&) const { return {server.g}; }
  Server aggregate(Server, const Sum<Up>& sum, const Setup&) const { return {sum->value}; }

  Personal personalize(const Client&, const Down& g, const Local& local, View view) const {
    const auto& model = local.model;
    const auto at = view == View::kPre ? whole(model, g) : trained(g, local).weights;
    const auto features = [&model, at](const Tensor& x) {
      return unit_rows(model.forward(at, x, Pass{}).features);
    };
    const auto own = local.data.take(Part::kTrain, local.data.sample(Part::kTrain, cap));
    const auto predict =
        gp.fit(features(own.x), own.y, own.size(), local.data.classes(), local.key);
    return {[=](const Tensor& x) { return predict(features(x)).to(at::kFloat); }, std::nullopt};
  }
};

}  // namespace

MethodInfo pfedgp() {
  return describe<PFedGP>({.name = "pfedgp",
                           .line = "shared features, a Gaussian process on every client",
                           .paper = "Achituve et al., NeurIPS 2021",
                           .equation = "section 4",
                           .section = "7.3",
                           .down = "d_B",
                           .up = "d_B",
                           .exposure = {.server = {{.tensor = "value.w",
                                                    .words = "its trained features",
                                                    .covers = Covers::kBase}},
                                        .peers = Shown::kSum,
                                        .sent = "the mean",
                                        .stays = "its classifier, which is made of its own data,"},
                           .headline = View::kPre,
                           .beyond_sgd = "fits a Gaussian process to all of a client's samples"});
}

}  // namespace tessera

// FedAdam (Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2): clients train
// as in FedAvg, and the server takes the mean of their changes for the gradient of Adam.
//
//   Δ = mean of trained models − g      m ← β1 m + (1 − β1) Δ      v ← β2 v + (1 − β2) Δ²
//   g ← g + η m / (√v + τ)
//
// Deviation: running statistics of batch norms are averaged, as in FedAvg: they are no parameters.

#include <ATen/ATen.h>

#include "method/fedavg.hpp"
#include "method/plugin.hpp"

namespace {

using namespace tessera;

// Four value types (Server, Client, Down, Up) and six functions; what is not here is FedAvg's.
struct FedAdam : FedAvg {
  // What the server remembers. Fields are listed once: checkpoints and comparisons follow.
  struct Server : FedAvg::Server {
    Tensor m, v;  // [d]
    static void fields(auto& s, auto&& f) { f("g", s.g), f("m", s.m), f("v", s.v); }
  };

  // Options are listed once: the experiment's [method], --set, errors and help follow.
  double eta = 0.03, beta1 = 0.9, beta2 = 0.99, tau = 1e-3;
  static void options(auto& o, auto&& f) {
    f(above("eta", 0, "the server's rate"), o.eta);
    f(between("beta1", 0, 0.9999, "what is kept of the mean change from round to round"), o.beta1);
    f(between("beta2", 0, 0.9999, "the same for its square"), o.beta2);
    f(above("tau", 0, "added to the root of the squares: smaller is more adaptive"), o.tau);
  }

  Server init_server(const Setup& setup) const {
    auto g = setup.model.init(setup.key);
    auto m = at::zeros_like(g.w), v = at::zeros_like(g.w);
    return {{std::move(g)}, std::move(m), std::move(v)};
  }

  // FedAvg's Up is Mean<Trained<Weights>>: a weighted mean, which arrives formed.
  Server aggregate(Server s, const Sum<Up>& sum, const Setup&) const {
    const Weights& mean = sum->value;
    const auto change = mean.w - s.g.w;
    s.m = beta1 * s.m + (1 - beta1) * change;
    s.v = beta2 * s.v + (1 - beta2) * change.square();
    s.g = {s.g.w + eta * s.m / (s.v.sqrt() + tau), mean.b};
    return s;
  }
};

}  // namespace

TESSERA_PLUGIN(table) {
  table.add(describe<FedAdam>(
      {.name = "fedadam",
       .line = "fedavg whose server steps by Adam",
       .paper = "Reddi et al., ICLR 2021",
       .equation = "Algorithm 2",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its trained model"}},
                    .peers = Shown::kSum,
                    .sent = "the model that the mean leads to"},
       .headline = View::kPre}));
}

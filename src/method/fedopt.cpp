// FedOpt (Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2): clients train
// as in FedAvg, and the server takes the mean of their changes, Δ, for the gradient of an optimiser
// of its own: FedAdagrad, FedYogi, FedAdam; or with momentum alone (FedAvgM: Hsu, Qi, Brown, 2019).
//
//   m ← β1 m + (1 − β1) Δ      adagrad: v ← v + Δ²      adam: v ← β2 v + (1 − β2) Δ²
//   yogi: v ← v − (1 − β2) Δ² sign(v − Δ²)              g ← g + η m / (√v + τ)
//   momentum: m ← β1 m + Δ                              g ← g + η m
//
// v starts at τ². Deviation: running statistics of batch norms are averaged: no parameters.

#include <ATen/ATen.h>

#include "method/any_method.hpp"
#include "method/fedavg.hpp"

namespace tessera {
namespace {

struct FedOpt : FedAvg {
  struct Server : FedAvg::Server {
    Tensor m, v;  // [d]; v is [0] with momentum alone
    static void fields(auto& s, auto&& f) { f("g", s.g), f("m", s.m), f("v", s.v); }
  };
  std::string rule = "adam";
  double eta = 0.03, beta1 = 0.9, beta2 = 0.99, tau = 1e-3;
  static void options(auto& o, auto&& f) {
    f(one_of("rule", {"adam", "yogi", "adagrad", "momentum"}, "the server's optimiser"), o.rule);
    f(above("eta", 0, "the server's rate; of momentum 1 is fedavg's"), o.eta);
    f(between("beta1", 0, 0.9999, "what is kept of the mean change from round to round"), o.beta1);
    f(between("beta2", 0, 0.9999, "adam, yogi: the same for its square"), o.beta2);
    f(above("tau", 0, "added to the root of the squares: smaller is more adaptive"), o.tau);
  }

  Server init_server(const Setup& setup) const {
    auto g = setup.model.init(setup.key);
    auto m = at::zeros_like(g.w);
    auto v = rule == "momentum" ? at::empty({0}, m.options()) : at::full_like(m, tau * tau);
    return {{std::move(g)}, std::move(m), std::move(v)};
  }
  Server aggregate(Server s, const Sum<Up>& sum, const Setup&) const {
    const Weights& mean = sum->value;
    const auto change = mean.w - s.g.w;
    if (rule == "momentum") {
      s.m = beta1 * s.m + change;
      s.g = {s.g.w + eta * s.m, mean.b};
      return s;
    }
    const auto square = change.square();
    s.m = beta1 * s.m + (1 - beta1) * change;
    if (rule == "adagrad") s.v = s.v + square;
    if (rule == "adam") s.v = beta2 * s.v + (1 - beta2) * square;
    if (rule == "yogi") s.v = s.v - (1 - beta2) * square * (s.v - square).sign();
    s.g = {s.g.w + eta * s.m / (s.v.sqrt() + tau), mean.b};
    return s;
  }
};

}  // namespace

MethodInfo fedopt() {
  return describe<FedOpt>(
      {.name = "fedopt",
       .line = "fedavg whose server steps by Adam, Yogi or Adagrad",
       .paper = "Reddi et al., ICLR 2021",
       .equation = "Algorithm 2",
       .section = "1.9",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its trained model"}},
                    .peers = Shown::kSum,
                    .sent = "the model that the mean leads to"},
       .headline = View::kPre,
       .beyond_sgd = ""});
}

}  // namespace tessera

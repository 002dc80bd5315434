// FedDyn (Acar et al., "Federated Learning Based on Dynamic Regularization", ICLR 2021, Algorithm
// 1): a client minimises L_i(θ) − <s_i, θ> + α/2 |θ − g|², so that where all clients agree nobody
// moves any more: s_i ← s_i − α (θ_i − g). The server keeps h ← h − α/N Σ (θ_i − g) over those who
// took part, and g ← mean of θ_i − h/α.
// Deviations: minimised by [train]'s epochs instead of to the end; running statistics are averaged.
// Clients count equally, as in the paper.

#include <ATen/ATen.h>

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "train/pull.hpp"

namespace tessera {
namespace {

struct FedDyn : FedAvg {
  struct Server : FedAvg::Server {
    Tensor h;  // [d]
    static void fields(auto& m, auto&& f) { f("g", m.g), f("h", m.h); }
  };
  struct Client {
    Tensor slope;  // s_i: [d]
    static void fields(auto& m, auto&& f) { f("slope", m.slope); }
  };
  double alpha = 0.1;
  static void options(auto& m, auto&& f) {
    f(above("alpha", 0, "how strongly local models are held together"), m.alpha);
  }
  Status check(const Setup&) const {
    if (train.optimizer != "sgd") return ok();
    return check_pull({.method = "feddyn",
                       .rate_key = "train.lr",
                       .pull_key = "method.alpha",
                       .rate = train.lr,
                       .strength = alpha});
  }

  Server init_server(const Setup& setup) const {
    auto g = setup.model.init(setup.key);
    return {{g}, at::zeros_like(g.w)};
  }
  Client init_client(const Local& local) const {
    return {at::zeros({local.model.layout().numel()})};
  }
  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const {
    const Job job{.hook = [&](const Tensor& w, Tensor& gradient) {
      gradient.sub_(me.slope).add_(w - g.w, alpha);
    }};
    const auto after = local_sgd(g, local, train, job);
    return {{me.slope - alpha * (after.weights.w - g.w)},
            {after.weights, 1},
            after.loss,
            g,
            after.weights};
  }
  Server aggregate(Server server, const Sum<Up>& sum, const Setup& setup) const {
    const Weights& mean = sum->value;
    const double share = sum.count / static_cast<double>(setup.clients);
    const auto h = server.h - alpha * share * (mean.w - server.g.w);
    return {{{mean.w - h / alpha, mean.b}}, h};
  }
};

}  // namespace

MethodInfo feddyn() {
  return describe<FedDyn>(
      {.name = "feddyn",
       .line = "local losses tilted so that all have one minimum",
       .paper = "Acar et al., ICLR 2021",
       .equation = "Algorithm 1",
       .section = "1.10",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its trained model"}},
                    .peers = Shown::kSum,
                    .sent = "the model that the mean leads to",
                    .stays = "the slope that its loss is tilted by"},
       .headline = View::kPre,
       .beyond_sgd = ""});
}

}  // namespace tessera

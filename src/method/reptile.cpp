// Reptile (Nichol, Achiam, Schulman, "On First-Order Meta-Learning Algorithms", 2018, Algorithm 2):
// move the global model a part of the way towards the clients' fine-tuned weights.
// eps = 1 is FedAvg; evaluation is after adaptation (docs/methods.md §1.6).

#include "method/any_method.hpp"
#include "method/fedavg.hpp"

namespace tessera {
namespace {

struct Reptile : FedAvg {
  struct Server : FedAvg::Server {
    Tensor velocity;  // [d]; [0] without momentum
    static void fields(auto& m, auto&& f) { f("g", m.g), f("velocity", m.velocity); }
  };
  double eps_first = 0.5, eps_last = 0.1, server_momentum = 0.0;
  int64_t ft_epochs = 1;
  static void options(auto& m, auto&& f) {
    f(between("eps_first", 0, 1, "server step in the first round; 1 is fedavg"), m.eps_first);
    f(between("eps_last", 0, 1, "server step in the last round, linear in between"), m.eps_last);
    f(between("server_momentum", 0, 0.9999, "momentum of the server step"), m.server_momentum);
    f(between("ft_epochs", 1, 10000, "passes over the adaptation data at evaluation"), m.ft_epochs);
  }

  Server init_server(const Setup& setup) const {
    auto g = setup.model.init(setup.key);
    auto velocity = at::zeros({server_momentum > 0 ? g.w.numel() : 0}, g.w.options());
    return {{std::move(g)}, std::move(velocity)};
  }
  Server aggregate(Server s, const Sum<Up>& sum, const Setup& setup) const {
    const double at = setup.rounds > 1 ? static_cast<double>(setup.round - 1) /
                                             static_cast<double>(setup.rounds - 1)
                                       : 0;
    const double eps = eps_first + (eps_last - eps_first) * at;
    const Weights& target = sum->value;
    s.g.b = target.b;
    // Written so that a full step lands exactly on the mean.
    if (server_momentum == 0) {
      s.g.w = eps == 1 ? target.w : at::lerp(s.g.w, target.w, eps);
      return s;
    }
    s.velocity = server_momentum * s.velocity + (target.w - s.g.w);
    s.g.w = s.g.w + eps * s.velocity;
    return s;
  }
  Personal personalize(const Client&, const Down& g, const Local& local, View view) const {
    if (view == View::kPre) return plain(local.model, g);
    const Job job{.part = local.data.adaptation(), .epochs = ft_epochs};
    return plain(local.model, local_sgd(g, local, train, job).weights);
  }
};

}  // namespace

MethodInfo reptile() {
  return describe<Reptile>(
      {.name = "reptile",
       .line = "first-order meta-learning: a step towards tuned models",
       .paper = "Nichol, Achiam and Schulman, 2018",
       .equation = "Algorithm 2",
       .section = "1.6",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its trained model"}},
                    .peers = Shown::kSum,
                    .sent = "the model that the mean leads to"},
       .headline = View::kPost,
       .beyond_sgd = ""});
}

}  // namespace tessera

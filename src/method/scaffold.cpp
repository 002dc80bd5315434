// SCAFFOLD (Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
// ICML 2020, Algorithm 1): local steps y ← y − η (g(y) − c_i + c) go where everybody's gradients
// point; after K of them c_i ← c_i − c + (x − y) / (K η) (option II). The server adds the changes
// of all c_i, over N, to c. Clients count equally, as in the paper; running statistics are
// averaged.

#include <ATen/ATen.h>

#include "method/any_method.hpp"

namespace tessera {
namespace {

struct Scaffold {
  struct Server {
    Weights g;
    Tensor c;  // [d]
    static void fields(auto& m, auto&& f) { f("g", m.g), f("c", m.c); }
  };
  using Down = Server;
  struct Client {
    Tensor c;  // c_i: [d]
    static void fields(auto& m, auto&& f) { f("c", m.c); }
  };
  struct Up {
    Mean<Trained<Weights, &Down::g>> model;
    Total<Change<Tensor>> control;  // the new c_i − the old one
    static void fields(auto& m, auto&& f) { f("model", m.model), f("control", m.control); }
  };
  TrainOptions train;
  double server_lr = 1;
  static void options(auto& m, auto&& f) {
    f(above("server_lr", 0, "part of the way to the clients' mean; 1: all of it"), m.server_lr);
  }
  Status check(const Setup&) const {
    if (train.optimizer == "sgd" && train.momentum == 0) return ok();
    return fail(Error::kInvalid,
                "scaffold takes its steps for gradients, which those of {} are not; set train.{}",
                train.optimizer == "sgd" ? "momentum" : train.optimizer,
                train.optimizer == "sgd" ? "momentum = 0" : "optimizer = \"sgd\"");
  }

  Server init_server(const Setup& setup) const {
    return {setup.model.init(setup.key), at::zeros({setup.model.layout().numel()})};
  }
  Client init_client(const Local& local) const {
    return {at::zeros({local.model.layout().numel()})};
  }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    for (const auto& ask : asks) send(ask, server);
  }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto drift = down.c - me.c;
    const Job job{.hook = [&](const Tensor&, Tensor& gradient) { gradient.add_(drift); }};
    const auto after = local_sgd(down.g, local, train, job);
    const double way = static_cast<double>(after.steps) * train.lr_at(local.round);
    const auto change = way > 0 ? (down.g.w - after.weights.w) / way - down.c : 0 * me.c;
    return {{me.c + change}, {{after.weights, 1}, change}, after.loss, down.g, after.weights};
  }
  Up expected(const Server& server, Why, const Setup&) const { return {{server.g}, server.c}; }
  Server aggregate(Server server, const Sum<Up>& sum, const Setup& setup) const {
    const Weights& mean = sum->model.value;
    const Tensor& change = sum->control.value;
    return {{at::lerp(server.g.w, mean.w, server_lr), mean.b},
            server.c + change / static_cast<double>(setup.clients)};
  }
  Weights global(const Server& server, const Setup&) const { return server.g; }
};

}  // namespace

MethodInfo scaffold() {
  return describe<Scaffold>(
      {.name = "scaffold",
       .line = "fedavg whose local steps are corrected for drift",
       .paper = "Karimireddy et al., ICML 2020",
       .equation = "Algorithm 1, option II",
       .section = "1.8",
       .down = "2 d",
       .up = "2 d",
       .exposure = {.server = {{.tensor = "model.value.w", .words = "its trained model"},
                               {.tensor = "control", .words = "how its mean gradient changed"}},
                    .peers = Shown::kSum,
                    .sent = "the means"},
       .headline = View::kPre,
       .beyond_sgd = ""});
}

}  // namespace tessera

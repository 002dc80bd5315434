// FedSGD (McMahan et al., AISTATS 2017, §2): the server steps along the weighted mean gradient.
// One parameter update per round is the method, not a defect.

#include "method/any_method.hpp"
#include "method/fedavg.hpp"

namespace tessera {
namespace {

struct FedSgd : FedAvg {
  struct Server {
    Weights g;
    int64_t round = 0;  // of the updates made so far: the learning rate decays at the server
    static void fields(auto& m, auto&& f) { f("g", m.g), f("round", m.round); }
  };
  std::string batch = "full";
  static void options(auto& m, auto&& f) {
    f(one_of("batch", {"full", "mini"}, "gradient of all local data, or of one mini-batch"),
      m.batch);
  }

  Server init_server(const Setup& setup) const { return {setup.model.init(setup.key)}; }
  Down broadcast(const Server& server, ClientId) const { return server.g; }

  FullGradient gradient(const Weights& g, const Local& local) const {
    if (batch == "full") return full_gradient(g, local, train.loss_kind(), Part::kTrain);
    FullGradient out{at::empty_like(g.w)};
    const auto order = Rng(derive(local.key, 0)).permutation(local.data.train_size());
    const auto size = std::min<size_t>(order.size(), static_cast<size_t>(train.batch));
    Weights here = g;
    out.loss = batch_gradient(local.model, here,
                              local.data.take(Part::kTrain, std::span(order).first(size)),
                              train.loss_kind(), derive(local.key, 0, 0), out.grad);
    out.buffers = here.b;
    return out;
  }

  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const {
    const auto full = gradient(g, local);
    return {
        me, {{full.grad, full.buffers}, static_cast<double>(local.data.train_size())}, full.loss};
  }
  Server aggregate(Server server, std::span<const Received<Up>> uploads) const {
    const auto step = mean(bodies(uploads));
    ++server.round;
    return {{server.g.w - train.lr_at(server.round) * step.w, step.b}, server.round};
  }
  Personal personalize(const Client&, const Down& g, const Local& local, View view) const {
    if (view == View::kPre) return plain(local.model, g);
    const auto full = gradient(g, local);
    return plain(local.model, {g.w - train.lr_at(local.round) * full.grad, full.buffers});
  }
  Weights global(const Server& server) const { return server.g; }
};

}  // namespace

MethodInfo fedsgd() {
  return describe<FedSgd>({.name = "fedsgd",
                           .line = "one step along the mean gradient per round",
                           .paper = "McMahan et al., AISTATS 2017",
                           .headline = View::kPre});
}

}  // namespace tessera

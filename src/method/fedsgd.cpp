// FedSGD (McMahan et al., AISTATS 2017, §2): the server steps along the weighted mean gradient.
// One parameter update per round is the method, not a defect.

#include "method/any_method.hpp"
#include "method/fedavg.hpp"

namespace tessera {
namespace {

struct FedSgd : FedAvg {
  using Up = Mean<Gradient<Weights>>;
  std::string batch = "full";
  static void options(auto& m, auto&& f) {
    f(one_of("batch", {"full", "mini"}, "gradient of all local data, or of one mini-batch"),
      m.batch);
  }

  FullGradient gradient(const Weights& g, const Site& site) const {
    const auto loss = train.loss_on(site.data);
    if (batch == "full") return full_gradient(g, site, loss, Part::kTrain);
    FullGradient out{at::empty_like(g.w)};
    const auto order = Rng(derive(site.key, 0)).permutation(site.data.train_size());
    const auto size = std::min<size_t>(order.size(), static_cast<size_t>(train.batch));
    Weights at = g;
    out.loss =
        batch_gradient(site.model, at, site.data.take(Part::kTrain, std::span(order).first(size)),
                       loss, derive(site.key, 0, 0), out.grad);
    out.buffers = at.b;
    return out;
  }

  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const {
    const auto full = gradient(g, local);
    const Weights slope{full.grad, full.buffers};
    return {me, {slope, samples_of(local)}, full.loss, g, stepped(g, slope, local.round)};
  }
  Up expected(const Server& server, Why, const Setup&) const { return {server.g}; }
  Server aggregate(Server server, const Sum<Up>& sum, const Setup& setup) const {
    return {stepped(server.g, sum->value, setup.round)};
  }

  /// From g down a gradient, whose running statistics are taken over.
  Weights stepped(const Weights& g, const Weights& slope, int64_t round) const {
    return {g.w - train.lr_at(round) * slope.w, slope.b};
  }
};

}  // namespace

MethodInfo fedsgd() {
  return describe<FedSgd>(
      {.name = "fedsgd",
       .line = "one step along the mean gradient per round",
       .paper = "McMahan et al., AISTATS 2017",
       .equation = "section 2",
       .section = "1.4",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its gradient"}},
                    .peers = Shown::kSum,
                    .sent = "the model that the mean gradient leads to"},
       .headline = View::kPre,
       .beyond_sgd = "sends a gradient of all samples and takes no local steps"});
}

}  // namespace tessera

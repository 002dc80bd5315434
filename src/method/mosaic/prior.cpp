// Prior (docs/methods.md §12.1; ours): FedAvg, unchanged, and every client predicts with the global
// model's logits, shifted by how its own class frequencies differ from the federation's. No
// training of its own and no private state: what class frequencies alone are worth.
//
// Uploads carry the client's class shares beside the model, in every round and not once: then any
// cohort can be summed unseen, and the server's shares are those of all cohorts so far.

#include <ATen/ATen.h>

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "method/mosaic/class_prior.hpp"
#include "tensor/linear_head.hpp"

namespace tessera {
namespace {

struct Prior {
  struct Server {
    Weights g;
    Tensor counts;  // float64 [classes]: samples of all cohorts so far, by class
    static void fields(auto& m, auto&& f) { f("g", m.g), f("counts", m.counts); }
  };
  using Client = Nothing;
  struct Down {
    Weights g;
    std::optional<Tensor> pi;  // float32 [classes]: to evaluate
    static void fields(auto& m, auto&& f) { f("g", m.g), f("pi", m.pi); }
  };
  struct Parts {
    Trained<Weights, &Down::g> model;
    Statistic<Tensor> shares;  // float32 [classes]
    static void fields(auto& m, auto&& f) { f("model", m.model), f("shares", m.shares); }
  };
  using Up = Mean<Parts>;

  TrainOptions train;
  double a = 1;
  static void options(auto& m, auto&& f) {
    f(above("a", 0, "samples by which a client's class shares are drawn to the federation's"), m.a);
  }

  Status check(const Setup& setup) const {
    if (!linear_head(setup.model.layout()))
      return fail(Error::kInvalid,
                  "prior reads the number of classes off the linear layer that ends a model, but "
                  "this one has none; set model.name to another (see `tessera models`)");
    if (train.class_weights == "none") return ok();
    return fail(Error::kInvalid,
                "prior counts on class shares, which train.class_weights = \"balanced\" takes out "
                "of the global model; set train.class_weights = \"none\"");
  }

  Server init_server(const Setup& setup) const {
    const int64_t classes = linear_head(setup.model.layout())->classes;
    return {setup.model.init(setup.key), at::zeros({classes}, at::kDouble)};
  }
  Client init_client(const Local&) const { return {}; }

  // Before anybody was counted all classes are equal.
  static Tensor shares(const Server& server) {
    const auto& n = server.counts;
    const double total = n.sum().item<double>();
    const auto pi = total > 0 ? n / total : at::full_like(n, 1.0 / static_cast<double>(n.numel()));
    return pi.to(at::kFloat);
  }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    const auto pi = shares(server);
    for (const auto& ask : asks)
      send(ask, {server.g, ask.why == Why::kTrain ? std::nullopt : std::optional(pi)});
  }

  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto trained = local_sgd(down.g, local, train);
    const auto counts = class_totals(local.data);
    const auto own = (counts / counts.sum().clamp_min(1)).to(at::kFloat);
    return {me, {{trained.weights, own}, samples_of(local)}, trained.loss};
  }
  Up expected(const Server& server, Why, const Setup&) const {
    return {{server.g, shares(server)}};
  }
  Server aggregate(Server server, const Sum<Up>& sum, const Setup&) const {
    const Tensor& shares = sum->value.shares;
    const auto cohort = shares.to(at::kDouble) * static_cast<double>(sum->weight);
    return {sum->value.model, server.counts + cohort};
  }
  Weights global(const Server& server, const Setup&) const { return server.g; }

  // The same in both views: nothing is trained for it.
  Personal personalize(const Client&, const Down& down, const Local& local, View) const {
    const auto counts = class_totals(local.data);
    const auto shift = prior_shift(counts, down.pi.value().to(at::kDouble), a).to(at::kFloat);
    return {[&model = local.model, g = down.g, shift](const Tensor& x) {
              return model.predict(g, x) + shift;
            },
            std::nullopt};
  }
};

}  // namespace

MethodInfo prior() {
  return describe<Prior>(
      {.name = "prior",
       .line = "fedavg's model with a client's own class frequencies",
       .paper = "-",
       .section = "12.1",
       .down = "d",
       .up = "d + C",
       .exposure = {.server = {{.tensor = "value.model.w", .words = "its trained model"},
                               {.tensor = "value.shares", .words = "its class shares"}},
                    .peers = Shown::kSum,
                    .sent = "the means"},
       .headline = View::kPre,
       .beyond_sgd = "sends the shares of a client's classes beside its model",
       .no_vote = "trains nothing for a client and only counts its classes"});
}

}  // namespace tessera

// FedBABU (Oh, Kim, Yun, "FedBABU: Toward Enhanced Representation for Federated Image
// Classification", ICLR 2022, Algorithm 1): only the body is trained and averaged, under one random
// head that nobody changes; a copy is fine-tuned for evaluation and thrown away.
// Deviations (docs/methods.md §2.4): the head is orthonormal, and drawn from the run's key at both
// ends, so it never travels. While the head alone is fine-tuned, the body works in evaluation mode.

#include <ATen/ATen.h>

#include "base/key.hpp"
#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "tensor/linear_head.hpp"
#include "tensor/orthonormal.hpp"
#include "tensor/split.hpp"
#include "train/head_fit.hpp"

namespace tessera {
namespace {

constexpr int kHeadStream = 1;  // of the initial model's key

struct FedBabu {
  struct Server {
    Weights body;  // w: [d_B]
    static void fields(auto& m, auto&& f) { f("body", m.body); }
  };
  using Client = Nothing;
  using Down = Weights;
  using Up = Mean<Trained<Weights>>;

  TrainOptions train;
  int64_t per_layers = 1, ft_epochs = 5;
  std::string ft_part = "body+head";
  static void options(auto& m, auto&& f) {
    f(between("per_layers", 1, 100, "layers with parameters, from the last, that stay random"),
      m.per_layers);
    f(between("ft_epochs", 1, 10000, "passes of fine-tuning before an evaluation"), m.ft_epochs);
    f(one_of("ft_part", {"body+head", "head", "body"}, "what fine-tuning may change"), m.ft_part);
  }

  Split split(const Model& model) const { return {model.layout(), per_layers}; }
  Status check(const Setup& setup) const {
    return check_per_layers(setup.model.layout(), per_layers, "fedbabu");
  }

  Server init_server(const Setup& setup) const {
    return {split(setup.model).rest_of(setup.model.init(setup.key))};
  }
  Client init_client(const Local&) const { return {}; }
  /// h0 [d_P]: everybody's; never changes.
  Tensor head_of(const Setup& setup) const {
    auto w = setup.model.init(setup.key).w;
    if (const auto head = linear_head(setup.model.layout())) {
      // Of unit rows; a degenerate random head would hurt all that is learned under it.
      const auto rows =
          orthonormal(head->classes, head->width, derive(setup.key, Purpose::kInit, kHeadStream));
      w.narrow(0, head->begin, rows.numel()).copy_(rows.flatten());
    }
    return split(setup.model).part_of(w);
  }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    for (const auto& ask : asks) send(ask, server.body);
  }

  Step<Client, Up> local_update(const Client& me, const Down& body, const Local& local) const {
    const auto parts = split(local.model);
    const auto after = local_sgd(parts.joined(head_of(local.setup), body), local, train,
                                 {.only = parts.mask().logical_not()});
    return {me, {parts.rest_of(after.weights), samples_of(local)}, after.loss};
  }
  Up expected(const Server& server, Why, const Setup&) const { return {server.body}; }
  Server aggregate(Server, const Sum<Up>& sum, const Setup&) const { return {sum->value}; }

  Weights tuned(const Weights& start, const Site& site) const {
    if (ft_part == "head") return fit_head(start, site, train, per_layers, ft_epochs).weights;
    Job job{.epochs = ft_epochs};
    if (ft_part == "body") job.only = split(site.model).mask().logical_not();
    return local_sgd(start, site, train, job).weights;
  }
  Personal personalize(const Client&, const Down& body, const Local& local, View view) const {
    const auto start = split(local.model).joined(head_of(local.setup), body);
    return plain(local.model, view == View::kPre ? start : tuned(start, local));
  }
};

}  // namespace

MethodInfo fedbabu() {
  return describe<FedBabu>({.name = "fedbabu",
                            .line = "shared body under a frozen random head; fine-tuned copies",
                            .paper = "Oh, Kim and Yun, ICLR 2022",
                            .equation = "Algorithm 1",
                            .section = "2.4",
                            .down = "d_B",
                            .up = "d_B",
                            .exposure = {.server = {{.tensor = "value.w",
                                                     .words = "its trained base",
                                                     .covers = Covers::kBase}},
                                         .peers = Shown::kSum,
                                         .sent = "the mean",
                                         .stays = "its fitted head",
                                         .rest_known = true},
                            .headline = View::kPost,
                            .beyond_sgd = ""});
}

}  // namespace tessera

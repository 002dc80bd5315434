// Fed_T (Zhang and Liu, "Personalized Federated Learning with Attention Mechanisms", §3.1) and FTL
// (a baseline of the FedHAM paper): FedAvg; then every client fits the layers above the features of
// its own copy of g (docs/methods.md §3.1).
//
// Deviations: neither paper says when stage 2 happens or for how long. It runs at every evaluation
// (every_eval = false: only after the last round), never feeds back into g, and is counted in
// epochs: 1 for FTL, 3 for Fed_T, for which more was worse (docs/experiments.md §5.4). Batch norms
// of frozen layers work in evaluation mode.

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "train/transfer.hpp"

namespace tessera {
namespace {

struct FedT : FedAvg {
  std::string freeze = "features";
  bool train_fc1 = true;
  TransferOptions transfer;
  static void shared_options(auto& m, auto&& f) {
    f(one_of("freeze", {"features", "none"}, "layers that keep the global model's weights"),
      m.freeze);
    TransferOptions::options(m.transfer, f);
  }
  static void options(auto& m, auto&& f) {
    shared_options(m, f);
    f(any("train_fc1", "train the first linear layer, too"), m.train_fc1);
  }

  // The control of fed_t_a's option of that name.
  Status check_fc1(const Setup& setup) const {
    const auto* net = convolutional(setup.model);
    if (train_fc1 || (freeze == "features" && net && net->spec().linears.size() > 1)) return ok();
    return fail(
        Error::kInvalid,
        "fed_t: train_fc1 = false freezes the first of several linear layers above "
        "convolutions: it needs freeze = \"features\" and a model such as lenet or cnn32-s");
  }
  Status check(const Setup& setup) const {
    TESSERA_RETURN_IF_ERROR(check_fc1(setup));
    if (freeze == "none") return ok();
    for (const auto& slice : setup.model.layout().slices())
      if (slice.features) return ok();
    return fail(Error::kInvalid,
                "This method freezes feature layers, and the model has none: set freeze = "
                "\"none\", or choose a convolutional or recurrent model such as lenet or gru64.");
  }
  Personal personalize(const Client&, const Down& g, const Local& local, View view) const {
    if (view == View::kPre || !transfer.due(local.round, local.setup.rounds))
      return plain(local.model, g);
    const auto stage2 = transfer.stage2(train);
    const auto fitted = freeze == "none" ? local_sgd(g, local, stage2)
                                         : train_upper(g, local, stage2, nullptr, train_fc1);
    return plain(local.model, fitted.weights);
  }
};

struct Ftl : FedT {
  Ftl() { transfer.ft_epochs = 1; }
  static void options(auto& m, auto&& f) { shared_options(m, f); }
};

}  // namespace

MethodInfo ftl() {
  return describe<Ftl>(
      {.name = "ftl",
       .line = "fedavg, then the layers above the features fit each client",
       .paper = "baseline of Configure Your Federation (FedHAM)",
       .section = "3.1",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its trained model"}},
                    .peers = Shown::kSum,
                    .sent = "the mean",
                    .stays = "its fitted copy"},
       .headline = View::kPost,
       .beyond_sgd = ""});
}

MethodInfo fed_t() {
  return describe<FedT>(
      {.name = "fed_t",
       .line = "fedavg, then all but the convolutions fit each client",
       .paper = "Zhang and Liu, Personalized Federated Learning with Attention "
                "Mechanisms",
       .equation = "section 3.1",
       .section = "3.1",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its trained model"}},
                    .peers = Shown::kSum,
                    .sent = "the mean",
                    .stays = "its fitted copy"},
       .headline = View::kPost,
       .beyond_sgd = ""});
}

}  // namespace tessera

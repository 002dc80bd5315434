// FedMeta (Chen et al., "Federated Meta-Learning with Fast Convergence and Efficient
// Communication", 2018; eqs. 4 to 7 of the FedMeta-Per paper): the server learns a start from which
// clients adapt quickly. MAML learns the start, Meta-SGD also a rate for every coordinate; FO-MAML
// (Finn et al., 2017, §5.2) leaves out second derivatives.
// Deviations, after the authors' code (docs/methods.md §6.0): an inner step per support batch
// (`inner = one_step` is the printed equation); the outer step is one of a fresh Adam (`outer =
// sgd`), hence clients upload weights, not gradients; clients count by their query samples.

#include <ATen/ATen.h>

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "method/meta/meta.hpp"
#include "train/check_task.hpp"

namespace tessera {
namespace {

/// Server::g is the learner (meta.hpp): [d], or [2d] with learned rates.
struct FedMeta : FedAvg {
  MetaOptions meta;
  bool learned_rates = false;
  static void options(auto& m, auto&& f) { MetaOptions::options(m.meta, f); }

  Server init_server(const Setup& setup) const {
    return {first_learner(setup.model.init(setup.key), learned_rates, meta.alpha)};
  }
  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const {
    auto step = meta_step(g, local, train, meta);
    return {me, {std::move(step.learner), step.weight}, step.loss};
  }
  Personal personalize(const Client&, const Down& g, const Local& local, View view) const {
    return plain(local.model, view == View::kPre ? start_of(g, local.model)
                                                 : adapted(g, local, train, meta).weights);
  }
  Weights global(const Server& server, const Setup& setup) const {
    return start_of(server.g, setup.model);
  }
  Status check(const ClientData& data) const { return check_task(data); }
  std::vector<Exhibit> exhibits(const Server& server, const Evaluated&, const Setup&) const {
    if (!learned_rates) return {};
    const int64_t d = server.g.w.numel() / 2;
    const auto negative = server.g.w.narrow(0, d, d).lt(0).to(at::kDouble).mean().view({1, 1});
    return {{.name = "negative_rates",
             .title = "share of learned rates below zero",
             .value = negative,
             .rows = {"rates"},
             .columns = {"negative"}}};
  }
};

struct FedMetaSgd : FedMeta {
  FedMetaSgd() { learned_rates = true, meta.beta = 5e-4; }
};

struct FoMaml : FedMeta {
  FoMaml() { meta.order = "first"; }
  static void options(auto& m, auto&& f) { MetaOptions::common_options(m.meta, f); }
};

}  // namespace

MethodInfo fedmeta_maml() {
  return describe<FedMeta>(
      {.name = "fedmeta-maml",
       .line = "learns a start from which clients adapt (MAML)",
       .paper = "Chen et al., 2018; Finn et al., ICML 2017",
       .equation = "Algorithm 1",
       .section = "6.2",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its trained model"}},
                    .peers = Shown::kSum,
                    .sent = "the mean"},
       .headline = View::kPost,
       .beyond_sgd = kMetaBeyond});
}
MethodInfo fedmeta_metasgd() {
  return describe<FedMetaSgd>({.name = "fedmeta-metasgd",
                               .line = "learns a start and a rate for every parameter (Meta-SGD)",
                               .paper = "Chen et al., 2018; Li et al., 2017",
                               .equation = "Algorithm 1",
                               .section = "6.3",
                               .down = "2 d",
                               .up = "2 d",
                               .exposure = {.server = {{.tensor = "value.w",
                                                        .words = "its trained model and rates",
                                                        .copies = 2}},
                                            .peers = Shown::kSum,
                                            .sent = "the means"},
                               .headline = View::kPost,
                               .beyond_sgd = kMetaBeyond});
}
MethodInfo fomaml() {
  return describe<FoMaml>(
      {.name = "fomaml",
       .line = "MAML without second derivatives",
       .paper = "Finn, Abbeel and Levine, ICML 2017",
       .equation = "section 5.2",
       .section = "6.2",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its trained model"}},
                    .peers = Shown::kSum,
                    .sent = "the mean"},
       .headline = View::kPost,
       .beyond_sgd = kMetaBeyond});
}

}  // namespace tessera

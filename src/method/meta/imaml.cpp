// iMAML (Rajeswaran et al., "Meta-Learning with Implicit Gradients", NeurIPS 2019, Algorithms 1 and
// 2): the inner learner stays near its start w, phi* = argmin L_support(phi) + lam/2 |phi − w|²,
// and the meta-gradient solves (I + H_support(phi*)/lam) m = ∇L_query(phi*). Deviations: the inner
// problem is solved roughly, by `inner_steps` steps that go round the support batches; outer step
// and aggregation as in FedMeta.

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "method/meta/implicit.hpp"
#include "train/check_task.hpp"

namespace tessera {
namespace {

struct IMaml : FedAvg {
  MetaOptions meta{.alpha = 0.01};
  ImplicitOptions implicit;
  static void options(auto& m, auto&& f) {
    MetaOptions::common_options(m.meta, f);
    ImplicitOptions::options(m.implicit, f);
  }

  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const {
    const auto task = training_task(local, train, meta);
    const auto by = implicit_gradient(ModelObjective(local, train), g, meta.alpha, task, implicit);
    const double rate = meta.beta * train.decay_at(local.round);
    Weights next{outer_step(g.w, by.w, rate, meta.outer), by.buffers};
    return {me, {next, static_cast<double>(task.query.samples())}, by.loss};
  }
  Personal personalize(const Client&, const Down& g, const Local& local, View view) const {
    if (view == View::kPre) return plain(local.model, g);
    return plain(local.model, proximal(ModelObjective(local, train), g, meta.alpha,
                                       evaluation_support(local, train, meta), implicit));
  }
  Status check(const ClientData& data) const { return check_task(data); }
};

}  // namespace

MethodInfo imaml() {
  return describe<IMaml>(
      {.name = "imaml",
       .line = "MAML by implicit gradients of a proximal inner problem",
       .paper = "Rajeswaran et al., NeurIPS 2019",
       .equation = "Algorithms 1 and 2",
       .section = "6.5",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its trained model"}},
                    .peers = Shown::kSum,
                    .sent = "the mean"},
       .headline = View::kPost,
       .beyond_sgd = "solves for a gradient at the end of steps of its own"});
}

}  // namespace tessera

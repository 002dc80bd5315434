// FedAvgMeta (Chen et al., "Federated Meta-Learning with Fast Convergence and Efficient
// Communication", 2018; as compared in the FedMeta-Per paper): FedAvg whose users fine-tune the
// global model on their support data before it is tested (docs/methods.md §6.1).

#include "method/any_method.hpp"
#include "method/fedavg.hpp"

namespace tessera {
namespace {

struct FedAvgMeta : FedAvg {
  int64_t ft_epochs = 1;
  static void options(auto& m, auto&& f) {
    f(between("ft_epochs", 1, 10000, "passes over the adaptation data at evaluation"), m.ft_epochs);
  }
  Personal personalize(const Client&, const Down& g, const Local& local, View view) const {
    if (view == View::kPre) return plain(local.model, g);
    const Job job{.part = local.data.adaptation(), .epochs = ft_epochs};
    return plain(local.model, local_sgd(g, local, train, job).weights);
  }
};

}  // namespace

MethodInfo fedavgmeta() {
  return describe<FedAvgMeta>(
      {.name = "fedavgmeta",
       .line = "FedAvg, fine-tuned on support data where it is used",
       .paper = "Chen et al., 2018",
       .equation = "section 4",
       .section = "6.1",
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

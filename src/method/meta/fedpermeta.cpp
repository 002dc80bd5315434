// FedPerMeta (baseline of the FedMeta-Per paper): FedPer whose users fine-tune base and head on
// their support data before it is tested (docs/methods.md §6.1). Deviation: none; the paper starts
// from the mean of everybody's heads, `head = own` is the client's.

#include "method/any_method.hpp"
#include "method/fedper.hpp"

namespace tessera {
namespace {

struct FedPerMeta : FedPer {
  int64_t passes = 1;
  FedPerMeta() { head = "mean"; }
  static void options(auto& m, auto&& f) {
    split_options(m, f);
    f(between("ft_epochs", 1, 10000, "passes over the adaptation data at evaluation"), m.passes);
    f(between("head_epochs", 1, 10000, "passes to fit a newcomer's own head first, base frozen"),
      m.ft_epochs);
  }
  Personal personalize(const Client& me, const Down& down, const Local& local, View view) const {
    const auto before = start(me, down, local);
    if (view == View::kPre) return plain(local.model, before);
    const Job job{.part = local.data.adaptation(), .epochs = passes};
    return plain(local.model, local_sgd(before, local, train, job).weights);
  }
};

}  // namespace

MethodInfo fedpermeta() {
  return describe<FedPerMeta>({.name = "fedpermeta",
                               .line = "FedPer, fine-tuned on support data where it is used",
                               .paper = "Nguyen, Cao and Le",
                               .equation = "section 4",
                               .section = "6.1",
                               .down = "d_B",
                               .up = "d",
                               .exposure = {.server = {{.tensor = "value.base.w",
                                                        .words = "its trained base",
                                                        .covers = Covers::kBase},
                                                       {.tensor = "value.head",
                                                        .words = "its head",
                                                        .covers = Covers::kTop}},
                                            .peers = Shown::kSum,
                                            .sent = "mean base and mean head"},
                               .headline = View::kPost,
                               .beyond_sgd = ""});
}

}  // namespace tessera

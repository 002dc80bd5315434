// Persistence (docs/methods.md §1.7): the label stays what it was last. Only for series whose
// samples show the label's past (ClientData::last_label), as the air-quality sets do. Learns
// nothing and sends nothing: what a forecast must beat to be one.

#include <ATen/ATen.h>

#include "method/rules/rule.hpp"

namespace tessera {
namespace {

struct Persistence : Rule {
  // Logit 1 for the last class, 0 for the others: it has no notion of how sure it is.
  Personal personalize(const Client&, const Down&, const Local& local, View) const {
    return {[last = local.data.last_label, classes = local.data.classes()](const Tensor& x) {
              const auto value = x.flatten(1).select(1, last->at).contiguous();
              const auto level = at::bucketize(value, at::tensor(last->limits));
              return at::one_hot(level, classes).to(at::kFloat);
            },
            std::nullopt};
  }
  Status check(const ClientData& data) const {
    if (data.last_label) return ok();
    return fail(Error::kInvalid,
                "persistence needs samples that show what their label was last, as those of the "
                "air-quality sets do; use majority here");
  }
};

}  // namespace

MethodInfo persistence() {
  return describe<Persistence>({.name = "persistence",
                                .line = "the last known class again: what a forecast must beat",
                                .paper = "-",
                                .section = "1.7",
                                .down = "0",
                                .up = "0",
                                .exposure = {},
                                .headline = View::kPre,
                                .learns = false,
                                .beyond_sgd = "trains nothing",
                                .no_vote = "trains nothing"});
}

}  // namespace tessera

// Majority (docs/methods.md §1.7): every client always predicts the class that most of its training
// samples have. Learns nothing and sends nothing: what a model must beat to have learned anything.

#include <ATen/ATen.h>

#include "method/rules/rule.hpp"

namespace tessera {
namespace {

struct Majority : Rule {
  // Logits are logarithms of the class shares, so that probabilities are these shares. One sample
  // more of every class keeps them finite and their order; of equals the first class is taken.
  Personal personalize(const Client&, const Down&, const Local& local, View) const {
    const auto counts = at::tensor(local.data.class_counts(Part::kTrain), at::kDouble) + 1;
    const auto logits = (counts / counts.sum()).log().to(at::kFloat);
    return {[logits](const Tensor& x) {
              return logits.expand({x.size(0), -1}).contiguous();
            },
            std::nullopt};
  }
};

}  // namespace

MethodInfo majority() {
  return describe<Majority>({.name = "majority",
                             .line = "a client's most frequent class: what must be beaten",
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

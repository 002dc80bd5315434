// Majority (docs/methods.md §1.7): every client always predicts the class that most of its training
// samples have. Learns nothing and sends nothing: what a model must beat to have learned anything.

#include <ATen/ATen.h>

#include "method/any_method.hpp"

namespace tessera {
namespace {

struct Majority {
  using Server = Nothing;
  using Client = Nothing;
  using Down = Nothing;
  using Up = Nothing;

  TrainOptions train;
  static void options(auto&, auto&&) {}

  Server init_server(const Setup&) const { return {}; }
  Client init_client(const Local&) const { return {}; }
  void broadcast(const Server&, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    for (const auto& ask : asks) send(ask, {});
  }
  Step<Client, Up> local_update(const Client&, const Down&, const Local&) const { return {}; }
  Up expected(const Server&, Why, const Setup&) const { return {}; }
  Server aggregate(Server, std::span<const Received<Up>>, const Setup&) const { return {}; }

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
                             .exposure = "nothing leaves a client",
                             .headline = View::kPre,
                             .learns = false});
}

}  // namespace tessera

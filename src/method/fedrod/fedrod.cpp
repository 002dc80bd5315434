// FedRoD (Chen and Chao, "On Bridging Generic and Personalized Federated Learning for Image
// Classification", ICLR 2022, §4): one body, a generic head G that learns with balanced
// softmax, and a private head P that learns with the ordinary loss what to add to G.
// Deviations (docs/methods.md §2.6): P starts at zero and has a bias; absent classes count e^-30.
// `hyper` makes P of a client's class shares by a small network that is averaged like the body.
// Since both heads are linear, a client's model is the plain one whose head is G + P.

#include <ATen/ATen.h>

#include "base/key.hpp"
#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "method/fedrod/two_heads.hpp"

namespace tessera {
namespace {

constexpr int kHyperStream = 2;  // of the initial model's key

struct FedRod {
  struct Server {
    Weights shared;  // body and generic head; behind them, with hyper, what makes P
    static void fields(auto& m, auto&& f) { f("shared", m.shared); }
  };
  struct Client {
    Tensor head;  // P_i; [0] with hyper
    static void fields(auto& m, auto&& f) { f("head", m.head); }
  };
  struct Down {
    Weights g;                    // body and generic head
    std::optional<Tensor> hyper;  // what makes P, with hyper
    static void fields(auto& m, auto&& f) { f("g", m.g), f("hyper", m.hyper); }
  };
  using Up = Mean<Trained<Weights, &Down::g>>;

  TrainOptions train;
  double gamma = 1;
  bool hyper = false;
  static void options(auto& m, auto&& f) {
    f(at_least("gamma", 0, "how far the generic head balances classes; 0: not at all"), m.gamma);
    f(any("hyper", "a shared network makes the private heads, newcomers' too, of class shares"),
      m.hyper);
  }

  PrivateHead head_of(const Model& model) const { return {*linear_head(model.layout()), hyper}; }
  Status check(const Setup& setup) const {
    if (!linear_head(setup.model.layout()))
      return fail(Error::kInvalid,
                  "fedrod doubles the linear layer that ends a model, but this one has none; set "
                  "model.name to another (see `tessera models`)");
    if (train.class_weights != "none")
      return fail(Error::kInvalid,
                  "fedrod balances classes itself (method.gamma), so train.class_weights would be "
                  "ignored; set train.class_weights = \"none\"");
    if (train.loss_kind() == Loss::kCrossEntropy) return ok();
    return fail(Error::kInvalid,
                "fedrod balances a softmax, which train.loss = \"multilabel\" has not; set "
                "train.loss = \"ce\"");
  }

  Tensor first_source(const Setup& setup) const {
    return head_of(setup.model).init(derive(setup.key, Purpose::kInit, kHyperStream));
  }
  Server init_server(const Setup& setup) const {
    const auto g = setup.model.init(setup.key);
    return {hyper ? shared_of({g, first_source(setup)}) : g};
  }
  Client init_client(const Local& local) const {
    return {hyper ? at::empty({0}) : first_source(local.setup)};
  }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup& setup,
                 const Send<Down>& send) const {
    Down down{global(server, setup), std::nullopt};
    if (hyper) down.hyper = server.shared.w.slice(0, down.g.w.numel());
    for (const auto& ask : asks) send(ask, down);
  }

  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto head = head_of(local.model);
    const TwoHeads start{down.g, hyper ? down.hyper.value() : me.head};
    const auto after = train_two_heads(start, head, local, train, gamma);
    const auto plain_model = [&](const TwoHeads& at) {
      return head.added(at.weights, at.source, class_shares(local.data));
    };
    return {{hyper ? me.head : after.source},
            {shared_of(after), samples_of(local)},
            after.loss,
            plain_model(start),
            plain_model(after)};
  }
  Up expected(const Server& server, Why, const Setup&) const { return {server.shared}; }
  Server aggregate(Server, const Sum<Up>& sum, const Setup&) const { return {sum->value}; }
  Weights global(const Server& server, const Setup& setup) const {
    return {server.shared.w.slice(0, 0, setup.model.layout().numel()), server.shared.b};
  }

  /// What is averaged.
  Weights shared_of(const TwoHeads& at) const {
    return hyper ? Weights{at::cat({at.weights.w, at.source}), at.weights.b} : at.weights;
  }
};

}  // namespace

MethodInfo fedrod() {
  return describe<FedRod>(
      {.name = "fedrod",
       .line = "one body, a generic balanced head and a private one",
       .paper = "Chen and Chao, ICLR 2022",
       .equation = "section 4",
       .section = "2.6",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its body and generic head"}},
                    .peers = Shown::kSum,
                    .sent = "the mean",
                    .stays = "its private head"},
       .headline = View::kPost,
       .beyond_sgd = "weighs its loss by how many samples of each class a client has"});
}

}  // namespace tessera

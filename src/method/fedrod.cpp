// FedRoD (Chen and Chao, "On Bridging Generic and Personalized Federated Learning for Image
// Classification", ICLR 2022, §4): one body, a generic head G that learns with balanced
// softmax, and a private head P that learns with the ordinary loss what to add to G.
// Deviations (methods.md §2.6): P starts at zero and has a bias; absent classes count e^-30.
// `hyper` makes P of a client's class shares by a small network that is averaged like the body.
// Since both heads are linear, a client's model is the plain one whose head is G + P.

#include <ATen/ATen.h>

#include "base/key.hpp"
#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "optim/two_heads.hpp"

namespace tessera {
namespace {

constexpr int kHyperStream = 2;  // of the initial model's key

struct FedRod {
  struct Shared {
    Weights g;                    // body and generic head
    std::optional<Tensor> hyper;  // what makes P, with hyper
    static void fields(auto& m, auto&& f) { f("g", m.g), f("hyper", m.hyper); }
  };
  using Server = Shared;
  using Down = Shared;
  struct Client {
    std::optional<Tensor> head;  // P_i, without hyper
    static void fields(auto& m, auto&& f) { f("head", m.head); }
  };
  using Up = Weighted;  // g, then what makes P

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
    if (train.loss_kind() == Loss::kCrossEntropy) return ok();
    return fail(Error::kInvalid,
                "fedrod balances a softmax, which train.loss = \"multilabel\" has not; set "
                "train.loss = \"ce\"");
  }

  Tensor first_source(const Setup& setup) const {
    return head_of(setup.model).init(derive(setup.key, Purpose::kInit, kHyperStream));
  }
  Server init_server(const Setup& setup) const {
    Server server{setup.model.init(setup.key), std::nullopt};
    if (hyper) server.hyper = first_source(setup);
    return server;
  }
  Client init_client(const Setup& setup, ClientId) const {
    return hyper ? Client{} : Client{first_source(setup)};
  }
  Down broadcast(const Server& server, ClientId) const { return server; }

  TwoHeads trained(const Client& me, const Down& down, const Local& local) const {
    return train_two_heads({down.g, hyper ? *down.hyper : *me.head}, head_of(local.model), local,
                           train, gamma);
  }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto after = trained(me, down, local);
    const auto size = static_cast<double>(local.data.train_size());
    if (!hyper) return {{after.source}, {after.weights, size}, after.loss};
    const auto both = at::cat({after.weights.w, after.source});
    return {me, {{both, after.weights.b}, size}, after.loss};
  }
  Server aggregate(Server server, std::span<const Received<Up>> uploads) const {
    const auto all = mean(bodies(uploads));
    const int64_t d = server.g.w.numel();
    server.g = {all.w.slice(0, 0, d), all.b};
    if (hyper) server.hyper = all.w.slice(0, d);
    return server;
  }

  Personal personalize(const Client& me, const Down& down, const Local& local, View view) const {
    const auto now = view == View::kPre ? TwoHeads{down.g, hyper ? *down.hyper : *me.head}
                                        : trained(me, down, local);
    return plain(local.model,
                 head_of(local.model).added(now.weights, now.source, class_shares(local.data)));
  }
  Weights global(const Server& server) const { return server.g; }
};

}  // namespace

MethodInfo fedrod() {
  return describe<FedRod>({.name = "fedrod",
                           .line = "one body, a generic balanced head and a private one",
                           .paper = "Chen and Chao, ICLR 2022",
                           .headline = View::kPost});
}

}  // namespace tessera

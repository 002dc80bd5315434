// FedPer (Arivazhagan et al., "Federated Learning with Personalization Layers", 2019, Algorithms 1
// and 2): a shared base, a private head; both are trained together.
// Deviation: `head = mean` is what [MPER] evaluates, the average of everybody's heads; the heads
// are then uploaded too (methods.md §2.1).

#include "method/any_method.hpp"
#include "method/fedavg.hpp"

namespace tessera {
namespace {

struct FedPer {
  struct Server {
    Weights base;         // w: [d_B]
    Tensor mean_head;     // [d_P] with head = mean, else [0]
    Tensor heads, sizes;  // [N, d_P], [N] with mean_over = all, else empty
    static void fields(auto& m, auto&& f) {
      f("base", m.base), f("mean_head", m.mean_head), f("heads", m.heads), f("sizes", m.sizes);
    }
  };
  struct Client {
    Tensor head;  // [d_P]
    static void fields(auto& m, auto&& f) { f("head", m.head); }
  };
  struct Down {
    Weights base;
    std::optional<Tensor> head;  // only to evaluate with the mean head
    static void fields(auto& m, auto&& f) { f("base", m.base), f("head", m.head); }
  };
  struct Up {
    Weighted base;
    std::optional<Tensor> head;
    static void fields(auto& m, auto&& f) { f("base", m.base), f("head", m.head); }
  };

  TrainOptions train;
  std::string head = "own", mean_over = "all";
  int64_t per_layers = 1, ft_epochs = 10;
  static void options(auto& m, auto&& f) {
    f(one_of("head", {"own", "mean"}, "head that is evaluated: the client's, or everybody's mean"),
      m.head);
    f(one_of("mean_over", {"all", "last_round"}, "whose heads the mean is taken over"),
      m.mean_over);
    f(between("per_layers", 1, 100, "layers with parameters, from the last, that stay private"),
      m.per_layers);
    f(between("ft_epochs", 1, 10000, "passes to fit a newcomer's head, base frozen"), m.ft_epochs);
  }

  bool mean_head() const { return head == "mean"; }
  Tensor head_at(const Model& model) const { return model.layout().trailing(per_layers); }

  Weights joined(const Model& model, const Weights& base, const Tensor& own) const {
    const auto at = head_at(model);
    auto w = at::empty({model.layout().numel()}, base.w.options());
    w.index_copy_(0, model.layout().others(at), base.w).index_copy_(0, at, own);
    return {w, base.b};
  }
  Weights base_of(const Model& model, const Weights& whole) const {
    return {whole.w.index_select(0, model.layout().others(head_at(model))), whole.b};
  }

  Server init_server(const Setup& setup) const {
    const auto whole = setup.model.init(setup.key);
    const auto first = whole.w.index_select(0, head_at(setup.model));
    const int64_t kept = mean_head() && mean_over == "all" ? setup.clients : 0;
    return {base_of(setup.model, whole), mean_head() ? first : at::empty({0}, first.options()),
            at::zeros({kept, first.numel()}, first.options()), at::zeros({kept}, at::kDouble)};
  }
  Client init_client(const Setup& setup, ClientId) const {
    return {setup.model.init(setup.key).w.index_select(0, head_at(setup.model))};
  }
  Down broadcast(const Server& server, ClientId) const { return {server.base, std::nullopt}; }
  Down broadcast_eval(const Server& server, ClientId) const {
    return {server.base, mean_head() ? std::optional(server.mean_head) : std::nullopt};
  }

  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto trained = local_sgd(joined(local.model, down.base, me.head), local, train);
    const auto own = trained.weights.w.index_select(0, head_at(local.model));
    Weighted base{base_of(local.model, trained.weights),
                  static_cast<double>(local.data.train_size())};
    return {{own}, {base, mean_head() ? std::optional(own) : std::nullopt}, trained.loss};
  }

  Server aggregate(Server server, std::span<const Received<Up>> uploads) const {
    std::vector<Weighted> bases;
    std::vector<Tensor> heads;
    std::vector<double> sizes;
    for (const auto& upload : uploads) {
      bases.push_back(upload.body.base);
      if (upload.body.head) heads.push_back(*upload.body.head);
      sizes.push_back(upload.body.base.weight);
    }
    server.base = mean(bases);
    if (!mean_head()) return server;
    if (mean_over == "all") {
      server.heads = server.heads.clone(), server.sizes = server.sizes.clone();
      for (size_t i = 0; i < uploads.size(); ++i) {
        server.heads[uploads[i].client].copy_(heads[i]);
        server.sizes[uploads[i].client] = sizes[i];
      }
      heads.clear(), sizes.clear();
      for (int64_t i = 0; i < server.sizes.size(0); ++i) {
        if (server.sizes[i].item<double>() == 0) continue;  // never took part
        heads.push_back(server.heads[i]);
        sizes.push_back(server.sizes[i].item<double>());
      }
    }
    server.mean_head = mean(heads, sizes);
    return server;
  }

  Personal personalize(const Client& me, const Down& down, const Local& local, View view) const {
    auto start = joined(local.model, down.base, down.head ? *down.head : me.head);
    if (local.newcomer && !down.head)
      start = local_sgd(start, local, train, {.epochs = ft_epochs, .only = head_mask(local.model)})
                  .weights;
    if (view == View::kPost) start = local_sgd(start, local, train).weights;
    return plain(local.model, start);
  }
  Tensor head_mask(const Model& model) const {
    return at::zeros({model.layout().numel()}, at::kBool).index_fill_(0, head_at(model), true);
  }
};

}  // namespace

MethodInfo fedper() {
  return describe<FedPer>({.name = "fedper",
                           .line = "shared base, private head",
                           .paper = "Arivazhagan et al., 2019",
                           .headline = View::kPost});
}

}  // namespace tessera

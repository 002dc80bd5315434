// pFedHT without its hypernetwork (`ours*` in the ablation of the pFedHT paper; docs/methods.md
// §7.4): every client keeps and trains its own attention projections W_i; everything else, eta, is
// averaged.
// Deviation: the specification starts newcomers from the mean W, which a server that never sees a
// W cannot know. `new_attention = init` starts them from the common initial W; `mean` has clients
// upload their W too and starts newcomers from the mean of the last round's.

#include "method/any_method.hpp"
#include "tensor/split.hpp"

namespace tessera {
namespace {

struct PFedHTNoHN {
  struct Server {
    Weights eta;            // w: [d − d_A]
    Tensor mean_attention;  // [d_A], or [0] where clients do not upload theirs
    static void fields(auto& m, auto&& f) {
      f("eta", m.eta), f("mean_attention", m.mean_attention);
    }
  };
  struct Client {
    Tensor attention;  // W_i: [d_A]
    static void fields(auto& m, auto&& f) { f("attention", m.attention); }
  };
  struct Down {
    Weights eta;
    std::optional<Tensor> attention;  // for newcomers
    static void fields(auto& m, auto&& f) { f("eta", m.eta), f("attention", m.attention); }
  };
  struct Parts {
    Trained<Weights, &Down::eta> eta;
    std::optional<Own<Tensor>> attention;
    static void fields(auto& m, auto&& f) { f("eta", m.eta), f("attention", m.attention); }
  };
  using Up = Mean<Parts>;

  TrainOptions train;
  std::string new_attention = "init";
  int64_t ft_epochs = 1;
  static void options(auto& m, auto&& f) {
    f(one_of("new_attention", {"init", "mean"},
             "attention that newcomers start from: the initial one, or the mean of the last "
             "round's clients, who then upload theirs"),
      m.new_attention);
    f(between("ft_epochs", 0, 10000, "passes of newcomers' local training of the attention"),
      m.ft_epochs);
  }

  bool uploads_attention() const { return new_attention == "mean"; }
  static Split split(const Model& model) { return {model.layout(), Role::kAttention}; }
  Status check(const Setup& setup) const {
    if (split(setup.model).numel() > 0) return ok();
    return fail(Error::kInvalid,
                "pfedht-nohn keeps a Transformer's attention projections at the client, but this "
                "model has none; set model.name to vit-s, vit-p (32×32 images) or vit-s28 (28×28)");
  }

  Server init_server(const Setup& setup) const {
    const auto first = setup.model.init(setup.key);
    const auto parts = split(setup.model);
    return {parts.rest_of(first),
            uploads_attention() ? parts.part_of(first.w) : at::empty({0}, first.w.options())};
  }
  Client init_client(const Local& local) const {
    return {split(local.model).part_of(local.model.init(local.setup.key).w)};
  }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    for (const auto& ask : asks) send(ask, {server.eta, attention_for(ask.why, server)});
  }
  std::optional<Tensor> attention_for(Why why, const Server& server) const {
    if (why == Why::kJoin && uploads_attention()) return server.mean_attention;
    return std::nullopt;
  }

  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto parts = split(local.model);
    auto start = parts.joined(down.attention ? *down.attention : me.attention, down.eta);
    if (local.newcomer && ft_epochs > 0)
      start = local_sgd(start, local, train, {.epochs = ft_epochs, .only = parts.mask()}).weights;
    const auto after = local_sgd(start, local, train);
    const auto own = parts.part_of(after.weights.w);
    Up upload{{parts.rest_of(after.weights), {}}, samples_of(local)};
    if (uploads_attention()) upload.value.attention = own;
    return {{own}, upload, after.loss, start, after.weights};
  }
  Up expected(const Server& server, Why, const Setup&) const {
    Up up{{server.eta, {}}};
    if (uploads_attention()) up.value.attention = server.mean_attention;
    return up;
  }
  Server aggregate(Server server, const Sum<Up>& sum, const Setup&) const {
    server.eta = sum->value.eta;
    if (uploads_attention()) server.mean_attention = *sum->value.attention;
    return server;
  }
};

}  // namespace

MethodInfo pfedht_nohn() {
  return describe<PFedHTNoHN>(
      {.name = "pfedht-nohn",
       .line = "own attention projections, the rest shared (ours*)",
       .paper = "ablation in the pFedHT paper",
       .equation = "ablation ours*",
       .section = "7.4",
       .down = "d - d_A",
       .up = "d - d_A",
       .exposure = {.server = {{.tensor = "value.eta.w",
                                .words = "all but its attention projections",
                                .covers = Covers::kNotAttention},
                               {.tensor = "value.attention",
                                .words = "its attention projections",
                                .covers = Covers::kAttention,
                                .only = "with new_attention = mean"}},
                    .peers = Shown::kSum,
                    .sent = "the mean",
                    .stays = "its attention"},
       .headline = View::kPost,
       .beyond_sgd = ""});
}

}  // namespace tessera

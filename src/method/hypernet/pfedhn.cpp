// pFedHN (Shamsian et al., "Personalized Federated Learning using Hypernetworks", ICML 2021,
// Algorithm 1): a hypernetwork on the server generates every client's whole model from the client's
// embedding and learns from what local training changes about it.
// Deviations (docs/methods.md §7.0, §7.1): several clients per round, their pulls averaged by
// samples; every client starts near the model's own initial weights; the embedding of an absent
// client rests, momentum included. Running statistics of batch norm are averaged as in FedAvg.

#include "base/memory.hpp"
#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "method/hypernet/hyper_server.hpp"

namespace tessera {
namespace {

struct PFedHN {
  struct Server {
    HyperState hn;
    Tensor b;  // mean running statistics
    static void fields(auto& m, auto&& f) { f("hn", m.hn), f("b", m.b); }
  };
  using Client = Nothing;
  using Down = Weights;
  struct Up {
    Weighted delta;  // received − trained; and the running statistics
    static void fields(auto& m, auto&& f) { f("delta", m.delta); }
  };
  using Guest = Embedding;

  TrainOptions train;
  HyperServer hn{.embed = 0, .hidden = 100, .layers = 3, .server_lr = 1e-2, .exchanges = 50};
  int64_t steps = 50;
  static void options(auto& m, auto&& f) {
    HyperServer::options(m.hn, f);
    f(between("steps", 0, 1e6, "local steps per round; 0: train.epochs passes"), m.steps);
  }

  HyperRun run(const Setup& setup) const { return hn.run(setup, setup.model.layout().numel(), 1); }
  Status check(const Setup& setup) const {
    return hn.check_memory("pfedhn", run(setup), available_memory());
  }

  Server init_server(const Setup& setup) const {
    const auto first = setup.model.init(setup.key);
    const auto scale = slice_scale(setup.model.layout(), first.w);
    return {hn.init(run(setup), first.w, scale), first.b};
  }
  Client init_client(const Local&) const { return {}; }
  void broadcast(const Server& server, std::span<const Ask<Guest>> asks, const Setup& setup,
                 const Send<Down, Guest>& send) const {
    hn.generate(server.hn, run(setup), asks, [&](const auto& ask, Tensor w) {
      send(ask, {std::move(w), server.b});
    });
  }

  int64_t local_steps(int64_t n) const { return steps > 0 && n > 0 ? steps : train.steps_on(n); }
  Job work(const Local& local) const {
    if (steps == 0) return {};
    const int64_t per_epoch =
        std::max<int64_t>((local.data.train_size() + train.batch - 1) / train.batch, 1);
    return {.epochs = (steps + per_epoch - 1) / per_epoch, .max_steps = steps};
  }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto after = local_sgd(down, local, train, work(local));
    auto upload = upload_of(after, local);
    upload.value.w = down.w - after.weights.w;
    return {me, {upload}, after.loss, down, after.weights};
  }
  Up expected(const Server& server, Why, const Setup& setup) const {
    return {{{at::zeros({setup.model.layout().numel()}), server.b}}};
  }

  Server aggregate(Server server, std::span<const Received<Up>> uploads, const Setup& setup) const {
    std::vector<HyperReply> replies;
    std::vector<Tensor> buffers;
    std::vector<double> sizes;
    for (const auto& upload : uploads) {
      const auto& [delta, size] = upload.body.delta;
      replies.push_back({upload.client, delta.w, size});
      buffers.push_back(delta.b), sizes.push_back(size);
    }
    hn.step(server.hn, run(setup), replies);
    server.b = mean(buffers, sizes);
    return server;
  }

  int64_t exchanges() const { return hn.exchanges; }
  Guest learn(const Server& server, const Guest* guest, const Up& up, const Setup& setup) const {
    return hn.learn(server.hn, run(setup), guest, up.delta.value.w);
  }
  std::vector<Exhibit> exhibits(const Server& server, const Evaluated&, const Setup& setup) const {
    return {{"embedding", "Client embeddings", Exhibit::Kind::kPoints,
             hn.embeddings(server.hn, run(setup))}};
  }
};

}  // namespace

MethodInfo pfedhn() {
  return describe<PFedHN>(
      {.name = "pfedhn",
       .line = "a hypernetwork generates every client's whole model",
       .paper = "Shamsian et al., ICML 2021",
       .equation = "Algorithm 1",
       .section = "7.1",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "delta.value.w",
                                .what = Tells::kChange,
                                .words = "how it changed the model made for it"}},
                    .peers = Shown::kMixed,
                    .sent = "models made for them",
                    .remark = "the server keeps an embedding, which groups similar clients"},
       .headline = View::kPre});
}

}  // namespace tessera

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
    Change<Weights> delta;  // received − trained; and the running statistics
    Count samples;
    static void fields(auto& m, auto&& f) { f("delta", m.delta), f("samples", m.samples); }
  };
  using Guest = Embedding;

  TrainOptions train{.steps = 50};
  HyperServer hn{.embed = 0, .hidden = 100, .layers = 3, .server_lr = 1e-2, .exchanges = 50};
  static void options(auto& m, auto&& f) {
    HyperServer::options(m.hn, f);
    f(between("steps", 0, 1e6, "local steps per round; 0: train.epochs passes"), m.train.steps);
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

  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    const auto after = local_sgd(down, local, train);
    const Weights delta{down.w - after.weights.w, after.weights.b};
    return {me, {delta, samples_of(local)}, after.loss, down, after.weights};
  }
  Up expected(const Server& server, Why, const Setup& setup) const {
    return {Weights{at::zeros({setup.model.layout().numel()}), server.b}};
  }

  Server aggregate(Server server, std::span<const Received<Up>> uploads, const Setup& setup) const {
    std::vector<HyperReply> replies;
    std::vector<Tensor> buffers;
    std::vector<double> sizes;
    for (const auto& [client, up] : uploads) {
      replies.push_back({client, up.delta->w, up.samples});
      buffers.push_back(up.delta->b), sizes.push_back(up.samples);
    }
    hn.step(server.hn, run(setup), replies);
    server.b = mean(buffers, sizes);
    return server;
  }

  int64_t exchanges() const { return hn.exchanges; }
  Guest learn(const Server& server, const Guest* guest, const Up& up, const Setup& setup) const {
    return hn.learn(server.hn, run(setup), guest, up.delta->w);
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
       .exposure = {.server = {{.tensor = "delta.w",
                                .words = "how it changed the model made for it"}},
                    .peers = Shown::kMixed,
                    .sent = "models made for them",
                    .remark = "the server keeps an embedding, which groups similar clients"},
       .headline = View::kPre,
       .beyond_sgd = ""});
}

}  // namespace tessera

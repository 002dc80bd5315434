// pFedHN (Shamsian et al., "Personalized Federated Learning using Hypernetworks", ICML 2021,
// Algorithm 1): a hypernetwork on the server generates every client's whole model from the client's
// embedding and learns from what local training changes about it.
// Deviations (methods.md §7.0, §7.1): several clients per round, their pulls averaged by samples;
// every client starts near the model's own initial weights; the embedding of an absent client
// rests, momentum included. Running statistics of batch norm are averaged as in FedAvg.

#include "base/memory.hpp"
#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "optim/hyper_server.hpp"

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
  using Guest = HyperGuest;

  TrainOptions train;
  HyperServer hn{.embed = 0, .hidden = 100, .layers = 3, .server_lr = 1e-2, .exchanges = 50};
  int64_t steps = 50;
  static void options(auto& m, auto&& f) {
    HyperServer::options(m.hn, f);
    f(between("steps", 0, 1e6, "local steps per round; 0: train.epochs passes"), m.steps);
  }

  HypernetSpec spec(const Setup& setup) const {
    return hn.spec(setup.clients, setup.model.layout().numel(), 1);
  }
  Status check(const Setup& setup) const {
    return hn.check_memory("pfedhn", spec(setup), available_memory());
  }

  Server init_server(const Setup& setup) const {
    const auto first = setup.model.init(setup.key);
    const auto scale = slice_scale(setup.model.layout(), first.w);
    return {hn.init(spec(setup), setup.clients, first.w, scale, setup.key), first.b};
  }
  Client init_client(const Setup&, ClientId) const { return {}; }
  Down broadcast(const Server& server, ClientId id) const {
    return {hn.generate(server.hn, id), server.b};
  }

  Trained trained(const Down& down, const Local& local) const {
    if (steps == 0) return local_sgd(down, local, train);
    const int64_t per_epoch = (local.data.train_size() + train.batch - 1) / train.batch;
    const int64_t epochs =
        (steps + std::max<int64_t>(per_epoch, 1) - 1) / std::max<int64_t>(per_epoch, 1);
    return local_sgd(down, local, train, {.epochs = epochs, .max_steps = steps});
  }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    auto after = trained(down, local);
    const double loss = after.loss;
    after.weights.w = down.w - after.weights.w;
    return {me, {upload_of(after, local)}, loss};
  }

  Server aggregate(Server server, std::span<const Received<Up>> uploads) const {
    std::vector<HyperReply> replies;
    std::vector<Tensor> buffers;
    std::vector<double> sizes;
    for (const auto& upload : uploads) {
      const auto& [delta, size] = upload.body.delta;
      replies.push_back({upload.client, delta.w, size});
      buffers.push_back(delta.b), sizes.push_back(size);
    }
    hn.step(server.hn, replies);
    server.b = mean(buffers, sizes);
    return server;
  }

  Personal personalize(const Client&, const Down& down, const Local& local, View view) const {
    return plain(local.model, view == View::kPre ? down : trained(down, local).weights);
  }

  int64_t exchanges() const { return hn.exchanges; }
  Guest greet(const Server& server) const { return hn.greet(server.hn); }
  Down broadcast(const Server& server, const Guest& guest) const {
    return {hn.generate(server.hn, guest), server.b};
  }
  Guest learn(const Server& server, const Guest& guest, const Up& up) const {
    return hn.learn(server.hn, guest, up.delta.value.w);
  }
  std::vector<Exhibit> exhibits(const Server& server, const Notes&) const {
    return {{"embedding", "Client embeddings", Exhibit::Kind::kPoints, server.hn.z}};
  }
};

}  // namespace

MethodInfo pfedhn() {
  return describe<PFedHN>({.name = "pfedhn",
                           .line = "a hypernetwork generates every client's whole model",
                           .paper = "Shamsian et al., ICML 2021",
                           .headline = View::kPre});
}

}  // namespace tessera

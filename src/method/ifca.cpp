// IFCA (Ghosh et al., "An Efficient Framework for Clustered Federated Learning", NeurIPS 2020,
// Algorithm 1, model averaging): the server has K models; a client is sent all of them, trains the
// one with the least loss on its data, and says which; those who chose the same are averaged.
// Deviations: means are weighted by training samples, so that K = 1 is FedAvg; the first model is
// the run's own initial one. A model that nobody chose stays.

#include <map>

#include "base/key.hpp"
#include "method/any_method.hpp"

namespace tessera {
namespace {

struct Ifca {
  struct Server {
    std::vector<Weights> models;
    static void fields(auto& m, auto&& f) { f("models", m.models); }
  };
  using Client = Nothing;
  using Down = Server;
  struct Up {
    Trained<Weights, &Down::models> model;
    Statistic<int64_t> cluster;  // 0 … K − 1
    Count size;
    static void fields(auto& m, auto&& f) {
      f("model", m.model), f("cluster", m.cluster), f("size", m.size);
    }
  };
  TrainOptions train;
  int64_t clusters = 2;
  static void options(auto& m, auto&& f) {
    f(between("clusters", 1, 1000, "models that clients choose from"), m.clusters);
  }
  Server init_server(const Setup& setup) const {
    Server out{{setup.model.init(setup.key)}};
    for (int64_t k = 1; k < clusters; ++k)
      out.models.push_back(setup.model.init(derive(setup.key, k)));
    return out;
  }
  Client init_client(const Local&) const { return {}; }
  void broadcast(const Server& server, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    for (const auto& ask : asks) send(ask, server);
  }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    std::vector<double> losses;
    for (const auto& model : down.models)
      losses.push_back(part_loss(local.model, model, local.data, Part::kTrain, train.loss_kind()));
    const auto chosen = std::min_element(losses.begin(), losses.end()) - losses.begin();
    const auto& start = down.models.at(static_cast<size_t>(chosen));
    const auto after = local_sgd(start, local, train);
    return {me, {after.weights, chosen, samples_of(local)}, after.loss, start, after.weights};
  }
  Up expected(const Server& server, Why, const Setup&) const { return {server.models.front(), 0}; }
  Status accept(const Server& server, const Up& up, const Setup&) const {
    if (up.cluster >= 0 && up.cluster < std::ssize(server.models)) return ok();
    return fail(Error::kInvalid, "it chose cluster {}, and there are {}", up.cluster.value,
                server.models.size());
  }
  Server aggregate(Server server, std::span<const Received<Up>> uploads, const Setup&) const {
    std::map<int64_t, std::vector<Weighted>> chosen;
    for (const auto& [client, up] : uploads) chosen[up.cluster].push_back({up.model, up.size});
    for (const auto& [cluster, parts] : chosen)
      server.models.at(static_cast<size_t>(cluster)) = mean(parts);
    return server;
  }
};

}  // namespace

MethodInfo ifca() {
  return describe<Ifca>(
      {.name = "ifca",
       .line = "several models; a client trains the one that fits it",
       .paper = "Ghosh et al., NeurIPS 2020",
       .equation = "Algorithm 1, model averaging",
       .section = "5.4",
       .down = "2 d",
       .up = "d",
       .exposure = {.server = {{.tensor = "model.w", .words = "its trained model"},
                               {.tensor = "cluster", .words = "which of the models fits it"}},
                    .peers = Shown::kSingle,
                    .sent = "the mean of every cluster; of who is alone in one its model"},
       .headline = View::kPost,
       .beyond_sgd = "chooses a model by the loss on all of a client's samples"});
}

}  // namespace tessera

// Methods that something is wrong with, for tests: `fragile` throws at the server, `leaky` tells
// something of its samples beside its model.

#include "method/fedavg.hpp"
#include "method/plugin.hpp"

namespace {

using namespace tessera;

/// FedAvg whose server cannot bear the upload of one client.
struct Fragile : FedAvg {
  struct Up {
    Trained<Weights> model;
    Count samples;
    static void fields(auto& m, auto&& f) { f("model", m.model), f("samples", m.samples); }
  };
  int64_t client = 1, first = 2, last = 2;
  static void options(auto& o, auto&& f) {
    f(between("client", 0, 1e6, "whose upload it is"), o.client);
    f(between("first", 1, 1e6, "round from which on it throws"), o.first);
    f(between("last", 1, 1e6, "and the last one"), o.last);
  }
  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const {
    const auto trained = local_sgd(g, local, train);
    return {me, {trained.weights, samples_of(local)}, trained.loss, g, trained.weights};
  }
  Up expected(const Server& server, Why, const Setup&) const { return {server.g, 0}; }
  Server aggregate(Server, std::span<const Received<Up>> uploads, const Setup& setup) const {
    std::vector<Weighted> parts;
    for (const auto& [id, up] : uploads) {
      if (id == client && setup.round >= first && setup.round <= last)
        throw std::runtime_error("the upload of client " + std::to_string(id) + " is too much");
      parts.push_back({up.model, up.samples});
    }
    return {mean(parts)};
  }
};

/// FedAvg that also sends a number about its samples.
struct Leaky : FedAvg {
  struct Parts {
    Trained<Weights> model;
    Statistic<double> labels;  // their mean
    static void fields(auto& m, auto&& f) { f("model", m.model), f("labels", m.labels); }
  };
  using Up = Mean<Parts>;
  Step<Client, Up> local_update(const Client& me, const Down& g, const Local& local) const {
    const auto trained = local_sgd(g, local, train);
    const auto y = local.data.range(Part::kTrain, 0, local.data.train_size()).y;
    return {me,
            {{trained.weights, y.to(at::kDouble).mean().item<double>()}, samples_of(local)},
            trained.loss,
            g,
            trained.weights};
  }
  Up expected(const Server& server, Why, const Setup&) const { return {{server.g, 0.0}}; }
  Server aggregate(Server, const Sum<Up>& sum, const Setup&) const { return {sum->value.model}; }
};

MethodInfo line(const char* name, std::vector<Told> told) {
  return {.name = name,
          .line = "for tests",
          .paper = "-",
          .down = "d",
          .up = "d",
          .exposure = {.server = std::move(told), .peers = Shown::kSum, .sent = "the mean"},
          .headline = View::kPre,
          .beyond_sgd = ""};
}

}  // namespace

TESSERA_PLUGIN(table) {
  table.add(describe<Fragile>(line("fragile", {{.tensor = "model.w", .words = "its model"}})));
  table.add(describe<Leaky>(line("leaky", {{.tensor = "value.model.w", .words = "its model"},
                                           {.tensor = "value.labels", .words = "its labels"}})));
}

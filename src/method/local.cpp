// Local-Train (methods.md §1.1): every client alone, from the common initial model. The lower
// reference: a federation that does not beat it is not worth its traffic.
// Deviation: early stopping on the validation loss, as the specification asks; then the best
// weights stand.

#include "method/any_method.hpp"

namespace tessera {
namespace {

struct LocalTrain {
  using Server = Nothing;
  using Down = Nothing;
  using Up = Nothing;
  struct Client {
    Weights w, best;
    double best_loss = INFINITY;
    int64_t stale = 0;   // rounds since the validation loss last fell
    int64_t epochs = 0;  // per round in which the client takes part
    static void fields(auto& m, auto&& f) {
      f("w", m.w), f("best", m.best), f("best_loss", m.best_loss), f("stale", m.stale),
          f("epochs", m.epochs);
    }
  };

  TrainOptions train;
  int64_t patience = 20;
  std::string budget = "participation";
  static void options(auto& m, auto&& f) {
    f(between("patience", 0, 1e6,
              "rounds without a lower validation loss before a client stops; 0: never"),
      m.patience);
    f(one_of("budget", {"participation", "full"},
             "epochs in all: those of a federated client, or rounds x epochs whatever the "
             "participation"),
      m.budget);
  }

  Server init_server(const Setup&) const { return {}; }
  Client init_client(const Setup& setup, ClientId) const {
    const auto first = setup.model.init(setup.key);
    const double scale = budget == "full" ? 1 / setup.participation : 1;
    return {first, first, INFINITY, 0, std::llround(scale * static_cast<double>(train.epochs))};
  }
  Down broadcast(const Server&, ClientId) const { return {}; }

  bool stopped(const Client& me) const { return patience > 0 && me.stale >= patience; }

  Step<Client, Up> local_update(const Client& me, const Down&, const Local& local) const {
    if (stopped(me)) return {me, {}, me.best_loss};
    const auto trained = local_sgd(me.w, local, train, {.epochs = me.epochs});
    Client next{trained.weights, me.best, me.best_loss, me.stale, me.epochs};
    if (patience == 0 || local.data.size(Part::kVal) == 0) {
      next.best = next.w;
      return {next, {}, trained.loss};
    }
    const double loss = part_loss(local.model, next.w, local.data, Part::kVal, train.loss_kind());
    if (loss < me.best_loss)
      next.best = next.w, next.best_loss = loss, next.stale = 0;
    else
      ++next.stale;
    return {next, {}, trained.loss};
  }
  Server aggregate(Server server, std::span<const Received<Up>>) const { return server; }

  // Nothing is received, so no local pass is due at evaluation: both views are the model held.
  Personal personalize(const Client& me, const Down&, const Local& local, View) const {
    Client here = me;
    // A newcomer trains from scratch for as long as the others have.
    for (int64_t round = 1; local.newcomer && round < local.round; ++round) {
      const Local past{local.model, local.data, round, derive(local.key, round)};
      here = local_update(here, {}, past).next;
    }
    return plain(local.model, stopped(here) ? here.best : here.w);
  }
};

}  // namespace

MethodInfo local() {
  return describe<LocalTrain>({.name = "local",
                               .line = "every client alone: the lower reference",
                               .paper = "-",
                               .headline = View::kPost});
}

}  // namespace tessera
